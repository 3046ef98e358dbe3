"""A reader of a stream that runs on the background loop: bounded, woken, closed, errors once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from torvyn._io.background_loop import BUFFER, SyncReader, background_loop

PENDING = object()


class Numbers:
    """0, 1, 2 ... up to `count`, then `error`; knows how many it produced."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.produced = 0
        self.aborted = threading.Event()
        self._count = count
        self._error = error

    async def __aiter__(self) -> AsyncIterator[int]:
        while self.produced < self._count and not self.aborted.is_set():
            self.produced += 1
            yield self.produced - 1
        if self._error is not None:
            raise self._error

    def reader(self) -> SyncReader[int]:
        return SyncReader(aiter(self), background_loop(), self.aborted.set)


def let_the_loop_work() -> None:
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), background_loop()).result(10)


def test_iterating_gives_every_item_in_order():
    numbers = Numbers(5 * BUFFER)

    assert list(numbers.reader()) == list(range(5 * BUFFER))


def test_the_loop_reads_one_buffer_ahead():
    numbers = Numbers(5 * BUFFER)
    reader = numbers.reader()

    assert next(reader) == 0
    let_the_loop_work()

    # The buffer is full again at most: one item was taken.
    assert numbers.produced <= BUFFER + 1
    reader.close()


def test_poll_answers_at_once_and_wakes_when_an_item_is_ready():
    wake, loop = threading.Event(), background_loop()
    is_allowed = asyncio.Event()

    async def one_later() -> AsyncIterator[int]:
        await is_allowed.wait()
        yield 1

    reader = SyncReader(one_later(), loop, is_allowed.set, wake.set)

    assert reader.poll(PENDING) is PENDING
    loop.call_soon_threadsafe(is_allowed.set)
    assert wake.wait(10)
    assert reader.poll(PENDING) == 1


def test_an_error_follows_the_items_and_is_raised_once():
    reader = Numbers(2, ValueError("broken")).reader()

    assert [next(reader), next(reader)] == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(reader)
    assert list(reader) == []


@pytest.mark.parametrize("is_started", [False, True])
def test_a_dropped_reader_aborts_its_stream(is_started: bool):
    numbers = Numbers(5 * BUFFER)
    reader = numbers.reader()
    if is_started:
        next(reader)

    del reader

    assert numbers.aborted.is_set()


def test_a_stream_that_ended_is_not_aborted():
    numbers = Numbers(3)
    reader = numbers.reader()
    list(reader)

    reader.close()

    assert not numbers.aborted.is_set()
