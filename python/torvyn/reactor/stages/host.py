"""The host of a procedure: where it runs, and how it waits there."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Host(Protocol):
    awaits: bool
    """Whether what the component gives back may be awaited."""
    steps: bool
    """Whether the procedure is suspended before each call of the component."""

    async def ready(self, for_credit: bool) -> None:
        """Returns when the reactor may have handed over tasks or, if asked for, credit."""

    async def rest(self, seconds: float | None) -> None:
        """Returns when the component asks to go on, or after so many seconds."""

    async def step(self) -> None:
        """Suspends before a call; only for hosts with `steps`."""

    def begin_call(self) -> None:
        """An awaited call begins: its time limit runs until the next begins, the procedure waits,
        or `end_call`."""

    def end_call(self) -> None:
        """What follows has no limit of its own."""

    def failure_of(self, error: BaseException) -> BaseException:
        """What to report for an exception. Raises it when it was the host that ended the stage."""


def run_blocking(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine that blocks where others suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine suspended where nothing can resume it")
