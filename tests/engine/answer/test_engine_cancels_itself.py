"""An engine that raises `CancelledError` by itself has failed; nobody cancelled its reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from observed_engines import nothing_runs, wait_until

import torvyn
from torvyn.components import Sentence
from torvyn.engine import ChoiceStep, Engine, Request, Step
from torvyn.errors import Internal


class Cancels(Engine):
    """Says a word, and is then cancelled from inside: raised, or by a future that was cancelled."""

    name = "cancels"

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        yield Step((ChoiceStep(text="word"),))
        if self._way == "raised":
            raise asyncio.CancelledError
        future = asyncio.get_running_loop().create_future()
        future.get_loop().call_soon(future.cancel)
        await future


WAYS = ["raised", "a future"]


def seen_by(deltas):
    """What a reader saw, and the error it ended with."""
    seen = []
    with pytest.raises(Internal) as caught:
        for delta in deltas:
            seen.append((delta.text, delta.finish_reason))
    return seen, caught.value


ENDED = [("word", None), ("", "error"), ("", None)]


@pytest.mark.parametrize("way", WAYS)
def test_a_for_loop_gets_a_finish_and_an_error(way):
    engine = Cancels(way)

    seen, error = seen_by(engine.generate("x"))

    assert seen == ENDED
    assert (error.code, error.message) == ("engine.failed", "the engine cancelled its own task")
    wait_until(lambda: nothing_runs(engine))


@pytest.mark.parametrize("way", WAYS)
def test_an_async_for_loop_gets_a_finish_and_is_not_cancelled(way):
    async def read():
        seen = []
        with pytest.raises(Internal):
            async for delta in Cancels(way).generate("x"):
                seen.append((delta.text, delta.finish_reason))
        await asyncio.sleep(0)
        return seen, asyncio.current_task().cancelling()

    assert asyncio.run(read()) == (ENDED, 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_flow_behind_it_ends_too(way):
    seen, _ = seen_by(Cancels(way).generate("x", through=lambda: torvyn.Flow(Sentence())))

    assert seen == ENDED


def test_a_reader_that_is_cancelled_stays_cancelled():
    class Waits(Engine):
        name = "waits"

        async def steps(self, request: Request) -> AsyncIterator[Step]:
            yield Step((ChoiceStep(text="word"),))
            await asyncio.Event().wait()

    async def main():
        engine = Waits()
        first = asyncio.Event()

        async def read():
            async for _ in engine.generate("x"):
                first.set()

        task = asyncio.create_task(read())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return nothing_left(engine)

    assert asyncio.run(main())


def test_a_reader_that_was_cancelled_before_still_learns_of_it():
    async def main():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(Internal):
                await Cancels("raised").acomplete("x")
            return "cleaned up"

    async def outer():
        task = asyncio.create_task(main())
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(outer()) == "cleaned up"


def nothing_left(engine: Engine) -> bool:
    return not engine._runs
