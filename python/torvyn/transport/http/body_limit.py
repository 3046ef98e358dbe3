"""The limit of the memory that request bodies take while they arrive, all requests together.

A body stays in memory until it is complete, so a few thousand slow ones could fill it. Above the
limit, the largest incomplete body is rejected; clients that send little are never affected.
"""

from __future__ import annotations

import asyncio
from typing import Final

MAX_BODIES: Final = 64
"""How many bodies of the largest size fit."""


class BodyRead:
    """One body that is being received. `timeout` fires if the body is rejected."""

    __slots__ = ("size", "timeout")

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self.timeout = timeout
        self.size = 0


class BodyBudget:
    """Of one application, in its loop."""

    def __init__(self, max_body_bytes: int) -> None:
        self._limit_bytes = MAX_BODIES * max_body_bytes
        self._reads: set[BodyRead] = set()
        self._bytes = 0

    def open(self, timeout: asyncio.Timeout) -> BodyRead:
        body_read = BodyRead(timeout)
        self._reads.add(body_read)
        return body_read

    def add(self, body_read: BodyRead, size: int) -> None:
        body_read.size += size
        self._bytes += size
        while self._bytes > self._limit_bytes:
            largest = max(self._reads, key=lambda one: one.size)
            self.close(largest)
            largest.timeout.reschedule(asyncio.get_running_loop().time())

    def close(self, body_read: BodyRead) -> None:
        if body_read in self._reads:
            self._reads.discard(body_read)
            self._bytes -= body_read.size
