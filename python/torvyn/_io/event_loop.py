"""What asyncio lacks: awaits without a task, one timer for many deadlines, and tasks that are kept
and that end.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final


def begin_wait(awaited: Awaitable[None]) -> Awaitable[None] | None:
    """Runs it up to its first wait; returns what remains to wait for, if anything."""
    began: Any = awaited.__await__()
    try:
        waits_for = next(began)
    except StopIteration:
        return None
    return _resumed(began, waits_for)


@types.coroutine
def _resumed(began: Any, waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a wait that has begun; the caller sees how it ends."""
    throw = getattr(began, "throw", None)
    while True:
        try:
            try:
                yield waits_for
            except BaseException as error:
                if throw is None:
                    raise
                waits_for = throw(error)
            else:
                waits_for = next(began)
        except StopIteration:
            return


class EarliestTimer:
    """One timer of a loop for many deadlines: it is due at the earliest of them.

    Calls `act` once per time it is due; `act` looks which deadlines have passed.
    """

    __slots__ = ("_act", "_due_s", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
        self._loop = loop
        self._act = act
        self._handle: asyncio.Handle | None = None
        # Not read from the handle: that of uvloop has no time if it is due at once.
        self._due_s = 0.0

    def arm(self, due_s: float) -> None:
        """An earlier time stays: most calls change nothing."""
        if self._handle is not None:
            if self._due_s <= due_s:
                return
            self._handle.cancel()
        self._due_s = due_s
        self._handle = self._loop.call_at(due_s, self._on_due)

    def close(self) -> None:
        """It is never due again. Breaks the reference cycle with its owner."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._act = _nothing

    def _on_due(self) -> None:
        self._handle = None
        self._act()


def _nothing() -> None:
    """Replaces `act` after the end."""


AGAIN_S: Final = 5.0
"""Longer than what a task does in its end, which the next `cancel` would cut short."""


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancels a task until it has ended.

    A single `cancel` can get lost: `asyncio.wait_for` of Python 3.11 forgets it if what it waits
    for ends at the same moment. A task that tries something again for ever then never ends.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)


def is_ending() -> bool:
    """Whether the present task was cancelled, even if the cancellation got lost."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_TASKS: Final[set[asyncio.Task[None]]] = set()


def keep_task(task: asyncio.Task[None]) -> None:
    """A loop has only weak references to its tasks."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
