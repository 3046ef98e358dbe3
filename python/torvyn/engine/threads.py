"""A blocking iterator as an async one: it runs on a thread of its own and is never far ahead.

For engines that can only be asked and waited for. The thread ends when the iterator does, or with
the next item once nobody listens any more; whoever leaves it tells the engine to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
_AHEAD: Final = 16


async def from_thread(make: Callable[[], Iterable[Item]]) -> AsyncGenerator[Item, None]:
    """What `make()` gives, item by item. `make` is called on the thread."""
    worker = _Worker(make, asyncio.get_running_loop())
    worker.start()
    try:
        while True:
            for item in await worker.take():
                yield item
            if worker.is_over:
                break
    finally:
        worker.leave()
    if worker.error is not None:
        raise worker.error


class _Worker(Generic[Item]):
    def __init__(self, make: Callable[[], Iterable[Item]], loop: asyncio.AbstractEventLoop) -> None:
        self._make = make
        self._loop = loop
        self._ready: list[Item] = []
        self._lock = threading.Lock()
        self._room = threading.Semaphore(_AHEAD)
        self._is_left = False
        self._arrived = asyncio.Event()
        self._is_finished = False
        self.is_over = False
        """All was taken, and there is no more."""
        self.error: BaseException | None = None

    def start(self) -> None:
        threading.Thread(target=self._work, name="torvyn-engine", daemon=True).start()

    async def take(self) -> list[Item]:
        """All that is there; waits until something is, or all is over."""
        while True:
            self._arrived.clear()
            with self._lock:
                ready, self._ready = self._ready, []
                is_finished = self._is_finished
            if ready or is_finished:
                self.is_over = is_finished
                if ready:
                    self._room.release(len(ready))
                return ready
            await self._arrived.wait()

    def leave(self) -> None:
        self._is_left = True
        self._room.release()

    def _work(self) -> None:
        items: Iterator[Item] | None = None
        try:
            items = iter(self._make())
            for item in items:
                self._room.acquire()
                if self._is_left:
                    break
                with self._lock:
                    self._ready.append(item)
                self._tell()
        except BaseException as error:
            self.error = error
        finally:
            if items is not None and hasattr(items, "close"):
                with contextlib.suppress(Exception):
                    items.close()
            with self._lock:
                self._is_finished = True
            self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(self._arrived.set)
