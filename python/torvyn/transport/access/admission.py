"""Admission: so many answers at a time; a few more wait shortly, the rest is refused at once.

Who waits is let in by priority, then in the order of coming. When no more can wait, who is worth
less and came last makes room.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from types import TracebackType
from typing import Final

from torvyn.manifest.schema.tables import PRIORITIES
from torvyn.transport.rejection import busy

_RANKS: Final = {name: rank for rank, name in enumerate(PRIORITIES)}
_NORMAL: Final = "normal"


class Admission:
    """`async with admission:` holds a place, or raises the rejection `transport.busy`."""

    def __init__(self, places: int, wait_s: float) -> None:
        self._free = places
        self._wait_s = wait_s
        self._most_waiting = places
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self.refused = 0

    @property
    def free(self) -> int:
        return self._free

    @property
    def waiting(self) -> int:
        return sum(not place.done() for _, _, place in self._waiting)

    def of(self, priority: str) -> AdmissionSlot:
        """`async with` it: a place for a request of that priority."""
        return AdmissionSlot(self, priority)

    async def __aenter__(self) -> None:
        await self.enter(_NORMAL)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    async def enter(self, priority: str) -> None:
        if self._free:
            self._free -= 1
            return
        rank = _RANKS[priority]
        if len(self._waiting) >= self._most_waiting:
            self._make_room(rank)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (rank, next(self._numbers), place)
        heapq.heappush(self._waiting, waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled() and place.exception() is None:
                # It was given the place in the same moment.
                self.release()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
                heapq.heapify(self._waiting)
            if isinstance(error, TimeoutError):
                self.refused += 1
                raise busy() from None
            raise

    def release(self) -> None:
        while self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def _make_room(self, rank: int) -> None:
        """Refuses the last of those who wait, or the newcomer if it is worth no more."""
        self.refused += 1
        last = max(self._waiting)
        if last[0] <= rank:
            raise busy()
        self._waiting.remove(last)
        heapq.heapify(self._waiting)
        if not last[2].done():
            last[2].set_exception(busy())


class AdmissionSlot:
    __slots__ = ("_admission", "_priority")

    def __init__(self, admission: Admission, priority: str) -> None:
        self._admission = admission
        self._priority = priority

    async def __aenter__(self) -> None:
        await self._admission.enter(self._priority)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._admission.release()
