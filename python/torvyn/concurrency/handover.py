"""From the loop that runs an engine to a reader elsewhere: a bounded buffer, one wake-up a batch.

The reader takes what is there without a lock and rings for more only when nothing is; the loop
waits when the buffer is full. Memory is `BUFFER` items at most, and a fast engine costs the reader
one wake-up for as many of them as were ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Generic, TypeVar

Given = TypeVar("Given")
Item = TypeVar("Item")
Make = Callable[[Given | None], Item | None]
BUFFER: Final = 256


class Handover(Generic[Item]):
    """One stream, one reader. `wake` is called on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], Any]) -> None:
        self.items: deque[Item] = deque()
        self.is_over = False
        self.error: BaseException | None = None
        self.is_room_wanted = False
        self._loop = loop
        self._wake = wake
        self._is_waited_for = False
        self._is_closed = False
        self._room = asyncio.Event()

    def begin(self, stream: AsyncIterator[Given], make: Make[Given, Item]) -> None:
        """From any thread. `make` makes an item of what the stream gives, or nothing; it gets None
        when the stream has come to its end without a failure."""
        pump = self._pump(stream, make)
        self._loop.call_soon_threadsafe(self._loop.create_task, pump)

    def want(self) -> bool:
        """The reader's "nothing there". True: it will be woken; False: it should look again."""
        self._is_waited_for = True
        return not self.items and not self.is_over

    def make_room(self) -> None:
        """For the reader to call, when room is wanted and half of it is there."""
        self.is_room_wanted = False
        self._loop.call_soon_threadsafe(self._room.set)

    def close(self) -> None:
        """The reader is gone: what waits is dropped, and nothing waits for it any more."""
        self._is_closed = True
        self.items.clear()
        if not self.is_over and not self._loop.is_closed():
            self.make_room()

    async def _pump(self, stream: AsyncIterator[Given], make: Make[Given, Item]) -> None:
        items = self.items
        try:
            async for given in stream:
                item = make(given)
                if item is None:
                    continue
                items.append(item)
                if self._is_waited_for:
                    self._ring()
                if len(items) >= BUFFER:
                    await self._wait_for_room()
            if (item := make(None)) is not None:
                items.append(item)
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True
            self._ring()

    def _ring(self) -> None:
        self._is_waited_for = False
        self._wake()

    async def _wait_for_room(self) -> None:
        while len(self.items) > BUFFER // 2 and not self._is_closed:
            self._room.clear()
            self.is_room_wanted = True
            if len(self.items) > BUFFER // 2 and not self._is_closed:
                await self._room.wait()
