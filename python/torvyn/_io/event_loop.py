"""What asyncio lacks: awaits without a task, one timer for many deadlines, an end that holds, and
something of its own for each loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import types
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final, Generic, TypeVar

from torvyn.errors import FlowError


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


NOT_ASYNCIO: Final = "loops.not-asyncio"

_OTHERS: Final = ("trio", "curio")


def require_asyncio(what: str) -> asyncio.AbstractEventLoop:
    """The running loop; raises if it is not asyncio's."""
    loop = asyncio._get_running_loop()
    if loop is None:
        raise FlowError(
            NOT_ASYNCIO,
            f"{what} needs an asyncio event loop, but runs on {_other_loop()}",
            hint="run it with asyncio.run(...), or use the sync method on a thread, for instance "
            "`await trio.to_thread.run_sync(flow.run)`",
        )
    return loop


def _other_loop() -> str:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio's"
    return "another library's"


def needs_other_loop(error: BaseException | None) -> str | None:
    """The library whose event loop a failed call needed."""
    if not isinstance(error, (RuntimeError, AttributeError)):
        return None
    package = ""
    trace = error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _OTHERS and trace.tb_frame.f_code.co_name == "run":
            # It ran a loop of its own, so it failed for another reason.
            return None
        trace = trace.tb_next
    return package if package in _OTHERS else None


T = TypeVar("T")
_CLOSE_S: Final = 2.0


class PerLoop(Generic[T]):
    """Something that each running loop has its own of, opened when it is first needed there.

    It is closed with its loop (by `asyncio.run`), with its owner, or with the program.
    """

    def __init__(self, open: Callable[[], AsyncGenerator[T, None]]) -> None:
        """`open` yields it once, and closes it when the generator is closed. A loop that ends
        closes its generators."""
        self._open = open
        self._lock = threading.Lock()
        self._latest: tuple[weakref.ref[asyncio.AbstractEventLoop], T] | None = None
        """What most calls of `get` return, without the cost of a weak dictionary."""
        self._entries: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[AsyncGenerator[T, None], T]
        ] = weakref.WeakKeyDictionary()
        weakref.finalize(self, _close_all, self._entries)

    async def get(self) -> T:
        loop, latest = asyncio.get_running_loop(), self._latest
        if latest is not None and latest[0]() is loop and self._is_usable(latest[1]):
            return latest[1]
        entry = self._entries.get(loop)
        if entry is not None and self._is_usable(entry[1]):
            self._latest = (weakref.ref(loop), entry[1])
            return entry[1]
        scope = self._open()
        opened = await anext(scope)
        with self._lock:
            self._entries[loop] = (scope, opened)
        return opened

    def _is_usable(self, opened: T) -> bool:
        return True

    def close(self) -> None:
        """Closes all of them, each on its loop. From any thread."""
        with self._lock:
            entries = list(self._entries.items())
            self._entries.clear()
            self._latest = None
        for loop, (scope, _) in entries:
            if loop is asyncio._get_running_loop():
                keep_task(loop.create_task(_close(scope)))
            elif loop.is_running():
                closed = asyncio.run_coroutine_threadsafe(_close(scope), loop)
                with contextlib.suppress(TimeoutError):
                    closed.result(_CLOSE_S)

    async def aclose(self) -> None:
        """Like `close`, and waits for that of the running loop."""
        with self._lock:
            entry = self._entries.pop(asyncio.get_running_loop(), None)
            self._latest = None
        if entry is not None:
            await _close(entry[0])
        self.close()


def _close_all(entries: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any]) -> None:
    """Waits only at the end of the program."""
    for loop, (scope, _) in list(entries.items()):
        if loop.is_running():
            closed = asyncio.run_coroutine_threadsafe(_close(scope), loop)
            if not threading.main_thread().is_alive():
                closed.result(_CLOSE_S)


async def _close(scope: AsyncGenerator[Any, None]) -> None:
    await scope.aclose()


_TASKS: Final[set[asyncio.Task[None]]] = set()


def keep_task(task: asyncio.Task[None]) -> None:
    """A loop has only weak references to its tasks."""
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
