"""A task that tries again for ever ends, even where its cancellation gets lost."""

from __future__ import annotations

import asyncio
import sys

import pytest

from torvyn._io import event_loop as module
from torvyn._io.event_loop import end_task, is_ending


class Stubborn:
    """Waits for an answer, which fails, and tries again."""

    def __init__(self, *, looks: bool) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.looks = looks
        self.failures = 0

    async def run(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self.answer, 30)
            except ConnectionError:
                self.failures += 1
                if self.looks and is_ending():
                    return
            self.answer = asyncio.get_running_loop().create_future()


async def at_the_same_moment(stubborn: Stubborn) -> None:
    """The answer fails in the moment in which the task is cancelled."""
    task = asyncio.ensure_future(stubborn.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stubborn.answer.set_exception(ConnectionError())
    await asyncio.wait_for(end_task(task), 10)
    assert task.done()


def test_a_task_that_looks_ends_at_once() -> None:
    asyncio.run(main_that_looks())


async def main_that_looks() -> None:
    started_s = asyncio.get_running_loop().time()
    await at_the_same_moment(Stubborn(looks=True))
    assert asyncio.get_running_loop().time() - started_s < 1


def test_a_task_that_does_not_look_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.05)
    asyncio.run(main_that_does_not_look())


async def main_that_does_not_look() -> None:
    stubborn = Stubborn(looks=False)
    await at_the_same_moment(stubborn)
    if sys.version_info < (3, 12):
        # Otherwise this test shows nothing: the first cancellation was not lost.
        assert stubborn.failures == 1


def test_a_task_that_has_ended_is_left_alone() -> None:
    async def main() -> None:
        task = asyncio.ensure_future(asyncio.sleep(0))
        await task
        await end_task(task)
        assert not task.cancelled()

    asyncio.run(main())
