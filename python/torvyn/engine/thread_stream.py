"""From a thread that blocks to the loop that reads: what a library hands over, as an async stream.

For engines that are libraries of blocking calls. The thread is never far ahead of the reader; when
the reader is gone, it hears of it with its next item, or before its first one. A library that has a
call to end its work is told by `on_leave`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Generic, TypeVar

Item = TypeVar("Item")
AHEAD: Final = 64
"""Items that the thread may be ahead of the reader."""
LAST_WORD_S: Final = 1.0
"""How long leaving waits for a thread that has been told to stop."""
_LOOK_S: Final = 1.0
"""How often a thread that waits for room looks whether its reader's loop is still there."""

Put = Callable[[Item], bool]
"""Hands an item over, on the thread; False when no more is wanted."""


class FromThread(Generic[Item]):
    """Runs `work(put)` on a thread of its own. `batches()` once, on the loop; `stop` anywhere."""

    def __init__(
        self,
        work: Callable[[Put[Item]], Any],
        name: str = "torvyn-engine",
        on_leave: Callable[[], Any] | None = None,
    ) -> None:
        self._work = work
        self._name = name
        self._on_leave = on_leave
        self._items: list[Item] = []
        self._is_over = False
        self._is_wanted = True
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = asyncio.Event()

    async def batches(self) -> AsyncGenerator[list[Item], None]:
        """What is there together, in order; then raises what the work raised.

        Closing it tells the thread to stop and waits a moment for it.
        """
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name=self._name, daemon=True).start()
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                # Read before the items are: what came before the end is taken with it.
                is_over = self._is_over
                if items := self._take():
                    yield items
                if is_over:
                    break
        finally:
            await self._leave()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """No more is wanted. From any thread; the stream then ends as if the work had."""
        with self._changed:
            self._is_wanted = False
            self._changed.notify()

    def put(self, item: Item) -> bool:
        with self._changed:
            while len(self._items) >= AHEAD and self._is_wanted:
                if not self._changed.wait(_LOOK_S) and self._is_loop_gone():
                    self._is_wanted = False
            if not self._is_wanted:
                return False
            self._items.append(item)
            is_first = len(self._items) == 1
        # The reader takes all there is: it is rung for the first of them alone.
        return self._ring() if is_first else True

    def _run(self) -> None:
        try:
            if self._is_wanted:
                self._work(self.put)
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._ring()

    def _take(self) -> list[Item]:
        with self._changed:
            taken, self._items = self._items, []
            self._changed.notify()
        return taken

    async def _leave(self) -> None:
        self.stop()
        if self._is_over:
            return
        if self._on_leave is not None:
            # What cannot be told to stop is no failure of the request.
            with contextlib.suppress(Exception):
                self._on_leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_S):
                while not self._is_over:
                    await self._ready.wait()
                    self._ready.clear()

    def _is_loop_gone(self) -> bool:
        return self._loop is None or self._loop.is_closed()

    def _ring(self) -> bool:
        """False when nobody can hear it any more."""
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._ready.set)
        except RuntimeError:  # the loop is closed, and its reader with it
            self._is_wanted = False
            return False
        return True
