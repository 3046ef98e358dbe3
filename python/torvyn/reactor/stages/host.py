"""The host of an executor: where it runs and how it waits."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from torvyn.reactor.run.cpu_throttle import CpuThrottle

Result = TypeVar("Result")


class Host(Protocol):
    is_async: bool
    """Whether the component's results may be awaited."""
    is_stepped: bool
    """Whether the executor is suspended before each call of the component."""

    throttle: CpuThrottle | None
    """Delays a source that uses more than its share of the CPU."""

    async def wait_for_work(self, needs_credit: bool) -> None:
        """Waits until the port may have tasks or, with `needs_credit`, credit."""

    async def sleep(self, seconds: float | None) -> None:
        """Waits until the component resumes or wakes the stage, or for so many seconds."""

    async def step(self) -> None:
        """Suspends before a call; only for hosts that are stepped."""

    def begin_call(self) -> None:
        """Starts the time limit of an awaited call. It ends with the next call, a wait, or
        `end_call`."""

    def end_call(self) -> None:
        """Ends the time limit."""

    def failure_of(self, error: BaseException) -> BaseException:
        """The error to report for an exception. Raises the exception if the host ended the
        stage."""


def run_blocking(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine whose waits block, so that it never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine suspended where nothing can resume it")
