"""An append that is interrupted is resolved before the next one: every store has all frames that
it was given, once and in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

import pytest
from asgi_client import within
from faulty_network import FaultyNetwork
from scale import sample

from torvyn._io.nats import BrokerConnection
from torvyn.transport.sessions.shared.address import StoreAddress
from torvyn.transport.sessions.shared.follower import Follower
from torvyn.transport.sessions.shared.frame_log import FrameMessage
from torvyn.transport.sessions.shared.store import SharedStore
from torvyn.transport.sessions.shared.streams import StoreLimits, create_streams
from torvyn.transport.sessions.store import SessionStore
from torvyn.transport.sessions.store_file import StoredSession

APPENDS = 12
SESSIONS = 8


def stored(id: str) -> StoredSession:
    return StoredSession(id=id, tenant="", caller="", flow="chat", epoch="e", request="{}")


async def interrupted(rng: random.Random, work: Any, cut: Any) -> None:
    """Runs it, and cancels it or cuts the connection at a random point, or neither."""
    task = asyncio.ensure_future(work)
    how = rng.choice((0, 1, 1, 1, 2))
    if how:
        for _ in range(rng.randrange(12)):
            await asyncio.sleep(0)
        await asyncio.sleep(rng.choice((0, 0, 0.0005)))
        task.cancel() if how == 1 else await cut()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def append_all(rng: random.Random, store: Any, id: str, cut: Any) -> list[bytes]:
    """Appends frames, many of them interrupted; returns all of them."""
    await store.begin(stored(id))
    frames: list[bytes] = []
    for number in range(APPENDS):
        new = [b'{"n":%d}' % (len(frames) + at) for at in range(rng.randrange(1, 4))]
        seq, is_over = len(frames), number == APPENDS - 1
        frames += new
        work = store.append(id, seq, new, is_over)
        await (work if is_over else interrupted(rng, work, cut))
    return frames


async def nothing() -> None:
    return


async def test_a_file_has_every_append_once_and_in_order(file: Path) -> None:
    store, rng = SessionStore(file), random.Random(1)
    try:
        for number in range(sample(30, full=1000)):
            frames = await append_all(rng, store, str(number), nothing)
            found = await store.load(str(number))
            assert found is not None
            assert (list(found.frames), found.is_over) == (frames, True)
    finally:
        store.close()


@pytest.mark.parametrize("seed", range(sample(1, full=20)))
async def test_a_broker_has_every_append_once_and_in_order(shared: str, seed: int) -> None:
    broker_url, _, name = shared.rpartition("/")
    port = int(broker_url.rpartition(":")[2])
    async with FaultyNetwork(port).up() as network:
        url = f"{network.url.replace('http', 'nats')}/{name}"
        address, rng = StoreAddress.parse(url), random.Random(seed)
        broker = BrokerConnection(address.servers[0], "session_store")
        store = SharedStore(broker, address, "one")

        async def cut() -> None:
            network.cut()

        await broker.open()
        try:
            await create_streams(broker, address, StoreLimits(60, 1, 1 << 26))
            for number in range(SESSIONS):
                frames = await within(append_all(rng, store, f"session{number}", cut))
                await within(broker.connected())
                assert await messages(broker, store, f"session{number}") == frames
        finally:
            await broker.close()


async def messages(broker: BrokerConnection, store: SharedStore, id: str) -> list[bytes]:
    """The frames of a session at the broker; each must follow the one before."""
    frames: list[bytes] = []

    def take(number: int, data: bytes) -> None:
        message = FrameMessage.parse(data)
        assert message.first == len(frames)
        frames.extend(message.frames)

    follower = Follower(broker, store.log, id, take)
    await follower.open()
    try:
        await within(follower.is_caught_up.wait())
    finally:
        follower.close()
    return frames
