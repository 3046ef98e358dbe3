"""Event loops: one wake-up line for each loop that runs flows or async stages.

The line is one file descriptor a loop, however many flows and stages ring it.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

from torvyn._native import Waker


class LoopBridge:
    """Rings callbacks on a loop from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weakly, or the table of bridges would keep every loop, and its descriptors, for good.
        self._loop = weakref.ref(loop)
        self.waker = Waker()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        return self._loop()

    def register(self, callback: Callable[[], None]) -> int:
        """A token; ringing it calls `callback` on the loop. The loop's thread only."""
        loop = self._loop()
        if loop is not None and not self._callbacks:
            loop.add_reader(self.waker.fileno(), self._ring)
        self._next += 1
        self._callbacks[self._next] = callback
        return self._next

    def unregister(self, token: int) -> None:
        self._callbacks.pop(token, None)
        loop = self._loop()
        if loop is not None and not self._callbacks and not loop.is_closed():
            loop.remove_reader(self.waker.fileno())

    def _ring(self) -> None:
        for token in dict.fromkeys(self.waker.take()):
            callback = self._callbacks.get(token)
            if callback is not None:
                self._call(callback)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # The others that were rung with it must hear all the same.
            loop = self._loop()
            if loop is not None:
                context = {"message": "a wake-up callback failed", "exception": error}
                loop.call_exception_handler(context)


_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBridge] = (
    weakref.WeakKeyDictionary()
)


def bridge(loop: asyncio.AbstractEventLoop) -> LoopBridge:
    """The bridge of a loop, made when it is first wanted. The loop's thread only."""
    found = _bridges.get(loop)
    if found is None:
        found = _bridges[loop] = LoopBridge(loop)
    return found
