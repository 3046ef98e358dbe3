"""BodyBudget that are being read, of all requests together.

One that comes slowly lies in memory until it is whole, and a few thousand of them would be all of
it. When there is too much, whoever has sent the most without coming to an end is told to try again:
those who send a little are never the ones.
"""

from __future__ import annotations

import asyncio
from typing import Final

MOST: Final = 64
"""BodyBudget of the largest size that there is room for."""


class BodyRead:
    """One body. `alarm` goes off when it has to make room."""

    __slots__ = ("alarm", "size")

    def __init__(self, alarm: asyncio.Timeout) -> None:
        self.alarm = alarm
        self.size = 0


class BodyBudget:
    """Of one application, in its loop."""

    def __init__(self, max_body_bytes: int) -> None:
        self._limit_bytes = MOST * max_body_bytes
        self._readings: set[BodyRead] = set()
        self._bytes = 0

    def open(self, alarm: asyncio.Timeout) -> BodyRead:
        reading = BodyRead(alarm)
        self._readings.add(reading)
        return reading

    def add(self, reading: BodyRead, size: int) -> None:
        reading.size += size
        self._bytes += size
        while self._bytes > self._limit_bytes:
            largest = max(self._readings, key=lambda one: one.size)
            self.close(largest)
            largest.alarm.reschedule(asyncio.get_running_loop().time())

    def close(self, reading: BodyRead) -> None:
        if reading in self._readings:
            self._readings.discard(reading)
            self._bytes -= reading.size
