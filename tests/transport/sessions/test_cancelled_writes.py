"""Whoever is cancelled while frames are stored: the session has what is stored, in order."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from scale import sample

from torvyn.transport.access.caller import Caller
from torvyn.transport.sessions.session import Session

FRAMES = [b'{"type":"start"}', *(b'{"type":"delta","n":%d}' % n for n in range(20))]
END = b'{"type":"end"}'


class SlowStore:
    """Stores frames after some turns of the loop; refuses those that do not follow the last."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.frames: list[bytes] = []

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None:
        assert seq == len(self.frames), "the frames before are not stored"
        await self._turns()
        self.frames += frames
        await self._turns()

    async def _turns(self) -> None:
        for _ in range(self._rng.randrange(5)):
            await asyncio.sleep(0)

    async def forget_before(self, id: str, seq: int, dropped: str) -> None: ...

    async def begin(self, stored: object) -> None: ...

    async def drop(self, *ids: str) -> None: ...


async def answer(session: Session) -> None:
    """As an answer does: the frames, and an end whatever happens."""
    with contextlib.suppress(asyncio.CancelledError):
        for frame in FRAMES:
            await session.add([frame])
            await asyncio.sleep(0)
    await session.add([END])


@pytest.mark.parametrize("seed", range(sample(50, full=1000)))
async def test_a_cancelled_answer_stores_its_end_behind_its_frames(seed: int) -> None:
    rng = random.Random(seed)
    session = Session("s", Caller(tenant="t"), "flow", "epoch", 1 << 20)
    session.store = store = SlowStore(rng)
    task = asyncio.ensure_future(answer(session))
    for _ in range(rng.randrange(1, 80)):
        await asyncio.sleep(0)
    task.cancel()
    await task
    assert session.is_over
    assert store.frames == [*FRAMES[: len(store.frames) - 1], END]
    assert [session.buffer.start, *session.buffer.take(1, 1 << 30)] == store.frames
