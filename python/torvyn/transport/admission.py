"""Admission: so many answers at a time; a few more wait shortly, the rest is refused at once."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

from torvyn.transport.refusal import busy


class Admission:
    """`async with admission:` holds a place, or raises the refusal `transport.busy`."""

    def __init__(self, places: int, wait_s: float) -> None:
        self._free = places
        self._wait_s = wait_s
        self._most_waiting = places
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.refused = 0

    @property
    def free(self) -> int:
        return self._free

    @property
    def waiting(self) -> int:
        return sum(not place.done() for place in self._waiting)

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        if len(self._waiting) >= self._most_waiting:
            self.refused += 1
            raise busy()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                # It was given the place in the same moment.
                self._release()
            elif place in self._waiting:
                self._waiting.remove(place)
            if isinstance(error, TimeoutError):
                self.refused += 1
                raise busy() from None
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._release()

    def _release(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
