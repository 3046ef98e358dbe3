"""The bridge from a blocking library: bounded, in order, and over when anybody leaves."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import aclosing

import pytest
from observed_engines import SOON_S, wait_until

from torvyn.engine import thread_stream
from torvyn.engine.thread_stream import AHEAD, ThreadStream

COUNT = 1000


class Library:
    """Blocking work that hands over numbers and tells when it has ended."""

    def __init__(self, count=COUNT, error=None):
        self.put = 0
        self.ended = threading.Event()
        self._count, self._error = count, error

    def __call__(self, put):
        try:
            while self.put < self._count and put(self.put):
                self.put += 1
            if self._error is not None:
                raise self._error
        finally:
            self.ended.set()


async def taken(stream):
    return [item async for batch in stream.batches() for item in batch]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "torvyn-engine"]


def test_everything_arrives_once_and_in_order():
    assert asyncio.run(taken(ThreadStream(Library()))) == list(range(COUNT))
    wait_until(lambda: not threads())


def test_what_is_ready_together_travels_together():
    library = Library(count=AHEAD)

    async def first():
        stream = ThreadStream(library).batches()
        async with aclosing(stream):
            taking = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            library.ended.wait(SOON_S)  # the loop stands still meanwhile
            return await taking

    assert asyncio.run(first()) == list(range(AHEAD))


def test_a_reader_that_does_not_read_stops_the_thread():
    library = Library()

    async def slow():
        async with aclosing(ThreadStream(library).batches()) as stream:
            got = await anext(stream)
            await asyncio.to_thread(wait_until, lambda: library.put - len(got) >= AHEAD)
            return got

    got = asyncio.run(slow())
    # Those that were taken, and those that wait for the reader.
    assert library.put == len(got) + AHEAD


def test_an_error_comes_after_the_items_before_it():
    got = []

    async def read():
        async for batch in ThreadStream(Library(3, ValueError("broke"))).batches():
            got.extend(batch)

    with pytest.raises(ValueError, match="broke"):
        asyncio.run(read())
    assert got == [0, 1, 2]


def test_leaving_early_ends_the_thread_before_the_stream_is_closed():
    library, told = Library(count=10**9), []

    async def leave():
        stream = ThreadStream(library, on_leave=lambda: told.append("leave"))
        async with aclosing(stream.batches()) as batches:
            await anext(batches)
        return library.ended.is_set()

    assert asyncio.run(leave())
    assert told == ["leave"]


def test_a_library_that_cannot_be_told_to_stop_is_no_failure():
    def refuse():
        raise RuntimeError("no such request")

    async def leave():
        stream = ThreadStream(Library(count=10**9), on_leave=refuse)
        async with aclosing(stream.batches()) as batches:
            return (await anext(batches))[0]

    assert asyncio.run(leave()) == 0


def test_a_library_that_has_ended_is_not_told_to_stop():
    told = []
    asyncio.run(taken(ThreadStream(Library(2), on_leave=lambda: told.append("leave"))))

    assert told == []


def test_leaving_does_not_wait_for_a_library_that_does_not_hear(monkeypatch):
    monkeypatch.setattr(thread_stream, "LEAVE_TIMEOUT_S", 0.01)
    goes_on = threading.Event()

    def deaf(put):
        put(1)
        goes_on.wait(SOON_S)

    async def leave():
        async with aclosing(ThreadStream(deaf).batches()) as batches:
            await anext(batches)
        return len(threads())

    assert asyncio.run(leave()) == 1
    goes_on.set()
    wait_until(lambda: not threads())


def test_a_stop_from_another_thread_ends_the_stream():
    library = Library(count=10**9)
    stream = ThreadStream(library)

    async def read():
        async for _ in stream.batches():
            await asyncio.to_thread(stream.stop)
        return library.ended.is_set()

    assert asyncio.run(read())


def test_a_stream_that_is_stopped_before_it_began_does_no_work():
    library = Library()
    stream = ThreadStream(library)
    stream.stop()

    assert asyncio.run(taken(stream)) == []
    assert library.put == 0


@pytest.mark.filterwarnings("ignore")
def test_a_thread_whose_loop_is_closed_ends(monkeypatch):
    monkeypatch.setattr(thread_stream, "_CHECK_S", 0.01)
    library = Library(count=10**9)
    loop = asyncio.new_event_loop()
    stream = ThreadStream(library).batches()
    loop.run_until_complete(anext(stream))
    loop.close()

    wait_until(library.ended.is_set)
    del stream
    gc.collect()
