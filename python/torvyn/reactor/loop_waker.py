"""Wakes an event loop from any thread, for all flows and stages that run on it.

A loop has one file descriptor for this, however many callbacks are registered.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Final

from torvyn._io.per_loop import PerLoop
from torvyn._native import Waker


class LoopWaker:
    """Runs registered callbacks on its loop when their tokens are notified from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # A strong reference would keep every loop and its descriptors in the table below.
        self._loop = weakref.ref(loop)
        self.waker = Waker()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._last_token = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        return self._loop()

    def register(self, callback: Callable[[], None]) -> int:
        """The token that calls `callback` on the loop. Call it on the loop's thread."""
        loop = self._loop()
        if loop is not None and not self._callbacks:
            loop.add_reader(self.waker.fileno(), self._dispatch)
        self._last_token += 1
        self._callbacks[self._last_token] = callback
        return self._last_token

    def unregister(self, token: int) -> None:
        self._callbacks.pop(token, None)
        loop = self._loop()
        if loop is not None and not self._callbacks and not loop.is_closed():
            loop.remove_reader(self.waker.fileno())

    def _dispatch(self) -> None:
        for token in dict.fromkeys(self.waker.take()):
            callback = self._callbacks.get(token)
            if callback is not None:
                self._call(callback)

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # The other callbacks of this wake-up still have to run.
            loop = self._loop()
            if loop is not None:
                context = {"message": "a wake-up callback failed", "exception": error}
                loop.call_exception_handler(context)


_wakers: Final[PerLoop[LoopWaker]] = PerLoop(LoopWaker)
waker_of: Final = _wakers.of
"""The loop's waker; the first call makes it. Call it on the loop's thread."""
