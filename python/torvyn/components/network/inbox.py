"""Between the thread of a client or a server and the source that it fills.

The thread puts what it receives, the source takes it in `pull`. When the inbox is full, the thread
stops reading, so back-pressure reaches the sender.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from torvyn.components.spec import Option

T = TypeVar("T")

CAPACITY: Final = Option(
    "capacity",
    "integer",
    1024,
    "How many received elements may wait for the flow before the source stops reading.",
    minimum=1,
)


class Inbox(Generic[T]):
    """A bounded queue: one thread puts, the flow takes."""

    def __init__(self, capacity: int, wake: Callable[[], None]) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._wake = wake
        self._is_awaited = False
        self._has_room = threading.Event()
        self._has_room.set()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return not self._has_room.is_set()

    def put(self, items: Iterable[T]) -> None:
        """Never blocks: whoever puts checks `is_full` before it reads on."""
        self._items.extend(items)
        if len(self._items) >= self._capacity:
            self._has_room.clear()
            # The flow may have taken the last item in between.
            self._open()
        if self._is_awaited:
            self._is_awaited = False
            self._wake()

    def take(self) -> T | None:
        """The oldest item, or None: then the next one wakes the flow."""
        if not self._items:
            # First the mark, then another look: what is put in between is seen here or wakes.
            self._is_awaited = True
            if not self._items:
                return None
        item = self._items.popleft()
        if not self._has_room.is_set():
            self._open()
        return item

    def wait_for_room(self, timeout_s: float | None = None) -> bool:
        return self._has_room.wait(timeout_s)

    def close(self) -> int:
        """Ends a wait for room; returns how many items nobody has taken."""
        self._has_room.set()
        return len(self._items)

    def _open(self) -> None:
        if len(self._items) <= self._capacity // 2:
            self._has_room.set()
