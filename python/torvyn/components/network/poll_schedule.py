"""When a source that polls is due, and when its reading was taken."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from torvyn.components.spec import Option

TIME_FIELD: Final = Option(
    "time_field",
    "text",
    "time",
    "The field for the time of a reading, in UTC; empty to leave it out.",
)


def utc_text(unix_s: float | None = None) -> str:
    """A time as `2026-11-16T07:15:00.123Z`; default: now."""
    moment = datetime.fromtimestamp(time.time() if unix_s is None else unix_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PollSchedule:
    """Reading n is due at start + n x interval. Readings that were missed are left out."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = clock()

    def wait_s(self) -> float:
        """The time until the next reading is due."""
        return max(0.0, self._due_s - self._clock())

    def next(self) -> None:
        """The reading was taken: the next one is due at the next multiple of the interval."""
        late = (self._clock() - self._due_s) / self._interval_s
        self._due_s += max(1, math.ceil(late)) * self._interval_s
