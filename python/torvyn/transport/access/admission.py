"""Admission: the limit of concurrent answers.

A few requests above the limit wait for a short time; the rest are rejected at once. Those that wait
are admitted by priority, then in order of arrival. When the queue is full, a request with a higher
priority displaces the last one with a lower priority.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from types import TracebackType
from typing import Final

from torvyn._manifest.records import PRIORITIES
from torvyn.transport.rejection import busy

_RANKS: Final = {name: rank for rank, name in enumerate(PRIORITIES)}


class Admission:
    """`async with admission.slot(priority):` holds a slot, or raises `transport.busy`."""

    def __init__(self, slots: int, wait_s: float) -> None:
        self._free = slots
        self._wait_s = wait_s
        self._max_waiting = slots
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self.rejected = 0

    @property
    def free(self) -> int:
        return self._free

    @property
    def waiting(self) -> int:
        return sum(not admitted.done() for _, _, admitted in self._queue)

    def slot(self, priority: str) -> AdmissionSlot:
        return AdmissionSlot(self, priority)

    async def acquire(self, priority: str) -> None:
        if self._free:
            self._free -= 1
            return
        rank = _RANKS[priority]
        if len(self._queue) >= self._max_waiting:
            self._displace_last(rank)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (rank, next(self._numbers), admitted)
        heapq.heappush(self._queue, waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                await admitted
        except BaseException as error:
            if admitted.done() and not admitted.cancelled() and admitted.exception() is None:
                # It got the slot at the same moment.
                self.release()
            elif waiter in self._queue:
                self._queue.remove(waiter)
                heapq.heapify(self._queue)
            if isinstance(error, TimeoutError):
                self.rejected += 1
                raise busy() from None
            raise

    def release(self) -> None:
        while self._queue:
            *_, admitted = heapq.heappop(self._queue)
            if not admitted.done():
                admitted.set_result(None)
                return
        self._free += 1

    def _displace_last(self, rank: int) -> None:
        """Rejects the last request in the queue, or the new one if its priority is no higher."""
        self.rejected += 1
        last = max(self._queue)
        if last[0] <= rank:
            raise busy()
        self._queue.remove(last)
        heapq.heapify(self._queue)
        if not last[2].done():
            last[2].set_exception(busy())


class AdmissionSlot:
    __slots__ = ("_admission", "_priority")

    def __init__(self, admission: Admission, priority: str) -> None:
        self._admission = admission
        self._priority = priority

    async def __aenter__(self) -> None:
        await self._admission.acquire(self._priority)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._admission.release()
