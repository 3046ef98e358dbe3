"""What a loop makes, read by `for` on another thread; and coroutines waited for from there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar

from torvyn.concurrency.handover import BUFFER, Handover
from torvyn.concurrency.process_exit import wait_if_abandoned

Item = TypeVar("Item")
Result = TypeVar("Result")


def wait_for(coroutine: Coroutine[Any, Any, Result], loop: asyncio.AbstractEventLoop) -> Result:
    """What the coroutine gives on the loop. Who stops waiting, cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        wait_if_abandoned()
        future.cancel()
        raise


class Reading(Generic[Item]):
    """An iterator over what `items` gives on the loop. `let_go` is called, from any thread, when
    nobody reads it any more; it has to end `items`."""

    def __init__(
        self,
        items: AsyncIterator[Item],
        loop: asyncio.AbstractEventLoop,
        let_go: Callable[[], None],
    ) -> None:
        self._items = items
        self._let_go = let_go
        self._is_begun = False
        self._signal: SimpleQueue[None] = SimpleQueue()
        signal = self._signal
        self._handover: Handover[Item] = Handover(loop, lambda: signal.put(None))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        handover = self._handover
        while not handover.items:
            if not self._is_begun:
                self._is_begun = True
                handover.begin(self._items, _same)
            if handover.is_over and not handover.items:
                self._raise_end()
            if handover.want():
                self._signal.get()
        item = handover.items.popleft()
        if handover.is_room_wanted and len(handover.items) <= BUFFER // 2:
            handover.make_room()
        return item

    def close(self) -> None:
        """Ends it, from any thread. What has not been read is dropped."""
        if not self._handover.is_over:
            self._let_go()
        self._handover.close()

    def __del__(self) -> None:
        self.close()

    def _raise_end(self) -> None:
        error, self._handover.error = self._handover.error, None
        if error is not None:
            wait_if_abandoned()
            raise error
        raise StopIteration


def _same(item: Item | None) -> Item | None:
    return item
