"""A flow that is cancelled while it starts ends as soon as it runs, with everything torn down."""

from __future__ import annotations

import asyncio
import threading

import torvyn


def test_cancelling_while_components_start_is_not_forgotten() -> None:
    told: list[str] = []

    class Source(torvyn.Source):
        def init(self, config: str) -> None:
            flow.cancel()

        def pull(self) -> str:
            told.append("pulled")
            return "x"

        def teardown(self) -> None:
            told.append("torn down")

    flow = torvyn.Flow(Source(), torvyn.sink(lambda element: None))

    flow.run()

    assert flow.state == "cancelled"
    assert told == ["torn down"]


def test_a_thread_that_still_starts_when_its_flow_is_cancelled_ends() -> None:
    begun, may_go_on, told = threading.Event(), threading.Event(), []

    class Waiting(torvyn.Source):
        run = "thread"

        def init(self, config: str) -> None:
            begun.set()
            may_go_on.wait()

        def pull(self) -> None:
            told.append("pulled")

        def teardown(self) -> None:
            told.append("torn down")

    async def cancel_while_starting() -> None:
        flow = torvyn.Flow(Waiting(), torvyn.sink(print))
        running = asyncio.create_task(flow.run_async())
        while not begun.is_set():
            await asyncio.sleep(0)
        running.cancel()
        may_go_on.set()
        await asyncio.wait([running])

    asyncio.run(cancel_while_starting())

    assert told == ["torn down"]
    assert not [t for t in threading.enumerate() if t.name == "torvyn-Waiting"]
