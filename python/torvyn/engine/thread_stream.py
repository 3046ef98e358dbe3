"""Runs a blocking library on a thread and reads its items as an async stream.

The thread is at most `AHEAD` items ahead of the reader. When the reader leaves, the thread's next
`put` returns False; `on_leave` calls a library that can end its work sooner.
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
LEAVE_TIMEOUT_S: Final = 1.0
"""How long the reader waits for the thread when it leaves."""
_CHECK_S: Final = 1.0
"""How often a thread that waits for the reader checks whether its loop still runs."""

Put = Callable[[Item], bool]
"""Called on the thread with an item; False when the reader has left."""


class ThreadStream(Generic[Item]):
    """Runs `work(put)` on its own thread. Call `batches` once, on the loop; `stop` anywhere."""

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
        self._is_read = True
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = asyncio.Event()

    async def batches(self) -> AsyncGenerator[list[Item], None]:
        """The items in order, all that are ready at a time; then raises the error of the work.

        Closing the generator stops the thread and waits for it briefly.
        """
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name=self._name, daemon=True).start()
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                # Read before the items, so that no item is lost at the end.
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
        """Stops the thread, from any thread; the stream then ends as if the work were done."""
        with self._changed:
            self._is_read = False
            self._changed.notify()

    def put(self, item: Item) -> bool:
        with self._changed:
            while len(self._items) >= AHEAD and self._is_read:
                if not self._changed.wait(_CHECK_S) and self._is_loop_gone():
                    self._is_read = False
            if not self._is_read:
                return False
            self._items.append(item)
            is_first = len(self._items) == 1
        # The reader takes all items at once, so only the first one wakes it.
        return self._wake() if is_first else True

    def _run(self) -> None:
        try:
            if self._is_read:
                self._work(self.put)
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._wake()

    def _take(self) -> list[Item]:
        with self._changed:
            items, self._items = self._items, []
            self._changed.notify()
        return items

    async def _leave(self) -> None:
        self.stop()
        if self._is_over:
            return
        if self._on_leave is not None:
            # An error here does not fail the request.
            with contextlib.suppress(Exception):
                self._on_leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                while not self._is_over:
                    await self._ready.wait()
                    self._ready.clear()

    def _is_loop_gone(self) -> bool:
        return self._loop is None or self._loop.is_closed()

    def _wake(self) -> bool:
        """Wakes the reader; False if its loop is closed."""
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._ready.set)
        except RuntimeError:  # the loop is closed, and its reader with it
            self._is_read = False
            return False
        return True
