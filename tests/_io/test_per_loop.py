"""Each loop has its own value or resource, whichever threads loops run on and whenever they end."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

import pytest

from torvyn._io.background_loop import end_loop, start_loop, wait_for
from torvyn._io.per_loop import PerLoop, ResourcePerLoop

THREADS = 8
ROUNDS = 25


class Resource:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed_on: asyncio.AbstractEventLoop | None = None


class Resources:
    """Opens resources, slowly, and knows all of them."""

    def __init__(self) -> None:
        self.opened: list[Resource] = []

    async def open(self) -> AsyncGenerator[Resource, None]:
        resource = Resource()
        self.opened.append(resource)
        await asyncio.sleep(0)
        try:
            yield resource
        finally:
            resource.closed_on = asyncio.get_running_loop()


class Value:
    """Keeps its loop in memory, as a lock or a future does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop


def test_loops_of_many_threads_have_each_their_own_value() -> None:
    values, start = PerLoop(Value), threading.Barrier(THREADS)

    async def look() -> int:
        found = [values.here() for _ in range(10)]
        assert {each.loop for each in found} == {asyncio.get_running_loop()}
        return len(set(found))

    def run_loops() -> int:
        start.wait()
        return sum(asyncio.run(look()) for _ in range(ROUNDS))

    with ThreadPoolExecutor(THREADS) as pool:
        found = [pool.submit(run_loops) for _ in range(THREADS)]
    assert [each.result() for each in found] == [ROUNDS] * THREADS


def test_a_value_that_keeps_its_loop_does_not_outlive_it_for_long() -> None:
    values, loops = PerLoop(Value), weakref.WeakSet()

    async def look() -> None:
        loops.add(values.here().loop)

    for _ in range(ROUNDS):
        asyncio.run(look())
    gc.collect()

    assert len(loops) == 1


def test_threads_that_ask_at_once_for_the_same_loop_get_the_same_value() -> None:
    def slow(loop: asyncio.AbstractEventLoop) -> Value:
        time.sleep(0.01)
        return Value(loop)

    loop, values, start = asyncio.new_event_loop(), PerLoop(slow), threading.Barrier(THREADS)

    def look() -> Value:
        start.wait()
        return values.of(loop)

    with ThreadPoolExecutor(THREADS) as pool:
        found = [pool.submit(look) for _ in range(THREADS)]
    assert len({each.result() for each in found}) == 1
    loop.close()


def test_tasks_that_ask_at_once_share_one_resource() -> None:
    made = Resources()
    owner = ResourcePerLoop(made.open)

    async def main() -> None:
        await asyncio.gather(*[owner.get() for _ in range(20)])

    asyncio.run(main())
    assert len(made.opened) == 1


def test_a_resource_is_closed_with_its_loop_on_every_thread() -> None:
    made = Resources()
    owner = ResourcePerLoop(made.open)

    async def use() -> None:
        assert (await owner.get()).loop is asyncio.get_running_loop()

    def run_loops() -> None:
        for _ in range(ROUNDS):
            asyncio.run(use())

    with ThreadPoolExecutor(THREADS) as pool:
        for running in [pool.submit(run_loops) for _ in range(THREADS)]:
            running.result()

    assert len(made.opened) == THREADS * ROUNDS
    assert all(each.closed_on is each.loop for each in made.opened)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_an_owner_closes_its_resources_on_their_loops(is_dropped: bool) -> None:
    made, loops = Resources(), [start_loop() for _ in range(3)]
    owner = ResourcePerLoop(made.open)
    for loop in loops:
        wait_for(owner.get(), loop, 10)

    if not is_dropped:
        owner.close()
    del owner
    gc.collect()

    for loop, resource in zip(loops, made.opened, strict=True):
        wait_for(asyncio.sleep(0), loop, 10)
        wait_for(asyncio.sleep(0), loop, 10)
        assert resource.closed_on is loop
        end_loop(loop, 10)


def test_a_resource_that_is_not_usable_any_more_is_closed_and_replaced() -> None:
    class Usable(ResourcePerLoop[Resource]):
        def _is_usable(self, opened: Resource) -> bool:
            return opened is not made.opened[0]

    async def main() -> Resource:
        await owner.get()
        return await owner.get()

    made = Resources()
    owner = Usable(made.open)
    assert asyncio.run(main()) is made.opened[1]
    assert made.opened[0].closed_on is made.opened[0].loop


def test_a_resource_whose_opening_failed_is_opened_again() -> None:
    tries = iter([ConnectionRefusedError(), None])

    async def open() -> AsyncGenerator[str, None]:
        if error := next(tries):
            raise error
        yield "opened"

    async def main() -> str:
        owner = ResourcePerLoop(open)
        with pytest.raises(ConnectionRefusedError):
            await owner.get()
        return await owner.get()

    assert asyncio.run(main()) == "opened"


def test_an_owner_that_closes_while_a_resource_is_opened_leaves_it_to_the_loop() -> None:
    made = Resources()
    owner = ResourcePerLoop(made.open)

    async def main() -> None:
        opening = asyncio.create_task(owner.get())
        await asyncio.sleep(0)
        assert made.opened
        await owner.aclose()
        assert await opening is made.opened[0]

    asyncio.run(main())
    assert made.opened[0].closed_on is made.opened[0].loop
