"""`run_async` while the broker is away: other tasks of the event loop go on."""

from __future__ import annotations

import asyncio
import time

import pytest
from nats_parts import Collected, chain, part, texts
from test_stored_ends import numbers_before_an_outage

import torvyn
from nats_server import NatsServer

LONGEST_PAUSE_S = 1.0
"""Far below what a wait for the broker takes, and above what a busy machine does."""


async def pauses_s(during: float) -> float:
    """The longest time for which the loop did not run this task."""
    longest_s, begin_s = 0.0, time.monotonic()
    last_s = begin_s
    while last_s - begin_s < during:
        await asyncio.sleep(0.01)
        longest_s, last_s = max(longest_s, time.monotonic() - last_s), time.monotonic()
    return longest_s


def test_the_loop_goes_on_while_a_start_waits(server: NatsServer) -> None:
    server.stop()
    sink = Collected()
    flow = chain(("a", texts(50)), ("b", sink))

    async def main() -> float:
        running = [asyncio.create_task(part(flow, name).run_async()) for name in ("a", "b")]
        longest_s = await pauses_s(during=3 * LONGEST_PAUSE_S)
        assert not any(task.done() for task in running)
        server.start()
        await asyncio.wait_for(asyncio.gather(*running), 30)
        return longest_s

    assert asyncio.run(main()) < LONGEST_PAUSE_S
    assert sink.texts == texts(50)


def test_a_task_that_is_cancelled_ends_the_wait(server: NatsServer) -> None:
    server.stop()
    flow = part(chain(("a", texts(1)), ("b", Collected())), "a")

    async def main() -> None:
        task = asyncio.create_task(flow.run_async())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    asyncio.run(main())
    assert flow.state == "cancelled"


def test_the_loop_goes_on_while_an_end_waits(server: NatsServer) -> None:
    flow = chain(("a", numbers_before_an_outage(server, 100)), ("b", Collected()))
    first = part(flow, "a")

    async def main() -> float:
        running = asyncio.create_task(first.run_async())
        longest_s = await pauses_s(during=3 * LONGEST_PAUSE_S)
        assert not running.done()
        server.start()
        await asyncio.wait_for(running, 30)
        return longest_s

    assert asyncio.run(main()) < LONGEST_PAUSE_S
    assert first.state == "completed"


def test_a_task_that_is_cancelled_ends_the_wait_for_the_end(server: NatsServer) -> None:
    flow = part(chain(("a", numbers_before_an_outage(server, 100)), ("b", Collected())), "a")

    async def main() -> None:
        task = asyncio.create_task(flow.run_async())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)

    asyncio.run(main())
    assert flow.state == "cancelled"


def test_elements_are_read_on_a_loop(server: NatsServer) -> None:
    """As an asynchronous iterator, too."""
    flow = chain(("a", texts(20)), ("b", torvyn.processor(lambda element: element.text)))

    async def main() -> list[str]:
        return [element.text async for element in flow]

    assert asyncio.run(main()) == texts(20)
