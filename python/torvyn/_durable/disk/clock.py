"""Ages by the wall clock and by the time since boot.

A row is too old only if every clock that is known says so. A row of this boot has its uptime, which
no step of the clock changes. For rows of other boots the wall clock counts, as it was when the
store was opened: a step while the flow runs expires nothing.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Final

from torvyn._io.resources import boot_id

_STEP_NS: Final = 1_000_000_000


def uptime_s() -> float:
    """Seconds since boot, including those in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_number() -> int:
    """A number that differs from boot to boot; 0 if it is unknown."""
    name = boot_id()
    return zlib.crc32(name.encode()) or 1 if name else 0


class AgeClock:
    def __init__(self, now: Callable[[], float], uptime: Callable[[], float], boot: int) -> None:
        self._now, self._uptime, self.boot = now, uptime, boot
        self._opened_ns = self._offset_ns = self.now_ns() - self.uptime_ns()

    def now_ns(self) -> int:
        return int(self._now() * 1e9)

    def uptime_ns(self) -> int:
        return int(self._uptime() * 1e9)

    def step_ns(self) -> int:
        """By how much the wall clock was stepped since the last call; 0 for less than a second."""
        offset = self.now_ns() - self.uptime_ns()
        step = offset - self._offset_ns
        self._offset_ns = offset
        return step if abs(step) > _STEP_NS else 0

    @property
    def stepped_ns(self) -> int:
        """By how much the wall clock was set since the store was opened; 0 for less than a
        second."""
        stepped = self.now_ns() - self.uptime_ns() - self._opened_ns
        return stepped if abs(stepped) > _STEP_NS else 0

    def is_older(self, age_ns: float, newest_ns: int, boot: int, uptime_ns: int) -> bool:
        now_ns, up_ns = self.now_ns(), self.uptime_ns()
        if boot == self.boot and boot:
            return now_ns - newest_ns > age_ns and up_ns - uptime_ns > age_ns
        return min(now_ns, self._opened_ns + up_ns) - newest_ns > age_ns
