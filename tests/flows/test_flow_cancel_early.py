"""A flow that is cancelled while it starts ends as soon as it runs, with everything torn down."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


class Late(ThreadPoolExecutor):
    """Begins its work at once and goes on when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def submit(self, work: Any, /, *given: Any, **named: Any) -> Any:
        def later() -> Any:
            self.begun.set()
            self.may_go_on.wait()
            return work(*given, **named)

        return super().submit(later)


async def cancel_while_starting(flow: torvyn.Flow, executor: Late) -> None:
    asyncio.get_running_loop().set_default_executor(executor)
    running = asyncio.create_task(flow.run_async())
    while not executor.begun.is_set():
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    executor.may_go_on.set()


def test_a_start_that_comes_after_its_flow_was_cancelled_leaves_no_thread() -> None:
    class Waiting(torvyn.Source):
        run = "thread"

        def pull(self) -> None: ...

    flow = torvyn.Flow(Waiting(), torvyn.sink(print))

    asyncio.run(cancel_while_starting(flow, Late()))

    assert not [t for t in threading.enumerate() if t.name == "torvyn-Waiting"]
