"""From a thread that blocks to the loop that reads: what a callback is given, as an async stream.

For engines that are libraries of blocking calls. The thread waits when the reader is behind; when
the reader is gone, the thread hears of it with its next item, or before its first one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Generic, TypeVar

Item = TypeVar("Item")
AHEAD: Final = 64
"""Items that the thread may be ahead of the reader."""
LAST_WORD_S: Final = 1.0
"""How long the end waits for a thread that has been told to stop."""

Put = Callable[[Item], bool]
"""Hands an item over; False when no more is wanted."""


class _Crossing(Generic[Item]):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.items: deque[Item] = deque()
        self.is_over = False
        self.error: BaseException | None = None
        self.ready = asyncio.Event()
        self._loop = loop
        self._is_wanted = True
        self._changed = threading.Condition()

    def put(self, item: Item) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self.items) < AHEAD or not self._is_wanted)
            if not self._is_wanted:
                return False
            self.items.append(item)
        self._ring()
        return True

    def run(self, work: Callable[[Put[Item]], Any]) -> None:
        try:
            if self._is_wanted:
                work(self.put)
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._ring()

    def take(self) -> list[Item]:
        with self._changed:
            taken = list(self.items)
            self.items.clear()
            self._changed.notify()
        return taken

    def stop(self) -> None:
        with self._changed:
            self._is_wanted = False
            self.items.clear()
            self._changed.notify()

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
            self._loop.call_soon_threadsafe(self.ready.set)


async def from_thread(
    work: Callable[[Put[Item]], Any], name: str
) -> AsyncGenerator[list[Item], None]:
    """Runs `work(put)` on a thread of its own; yields what is there together.

    Closing it tells the thread to stop and waits a moment for it.
    """
    crossing: _Crossing[Item] = _Crossing(asyncio.get_running_loop())
    thread = threading.Thread(target=crossing.run, args=(work,), name=name, daemon=True)
    thread.start()
    try:
        while True:
            await crossing.ready.wait()
            crossing.ready.clear()
            # Read before the items are: what came before the end is taken with it.
            is_over = crossing.is_over
            if items := crossing.take():
                yield items
            if is_over:
                break
        if crossing.error is not None:
            raise crossing.error
    finally:
        crossing.stop()
        if thread.is_alive():
            await asyncio.shield(asyncio.to_thread(thread.join, LAST_WORD_S))
