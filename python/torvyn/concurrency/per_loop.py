"""Something that each event loop has its own of, opened when it is first needed there.

It is closed with its loop (by `asyncio.run`), with its owner, or with the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
_CLOSE_S: Final = 2.0


class PerLoop(Generic[T]):
    """Gives each running loop its own."""

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
