"""The rate at which elements are sent to a server that has said that it is overloaded.

Without such an answer there is no limit. Each one halves the rate; each request that is accepted
raises it by a tenth, until it no longer limits anything. So a backlog after an outage does not
knock the server over. Pure: the clock is an argument.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LOWEST_PER_S: Final = 1.0
_GROWTH: Final = 1.1
_UNLIMITED: Final = 4.0
"""A limit of so many times the rate that was too high limits nothing any more."""


class AdaptiveRate:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._per_s: float | None = None
        self._too_high_per_s = 0.0
        self._observed_per_s = 0.0
        self._sent_s: float | None = None
        self._count = 0

    @property
    def limit_per_s(self) -> float | None:
        """Elements per second; None: no limit."""
        return self._per_s

    def delay_s(self) -> float:
        """How long to wait before the next request."""
        if self._per_s is None or self._sent_s is None:
            return 0.0
        return max(0.0, self._sent_s + self._count / self._per_s - self._clock())

    def sent(self, count: int) -> None:
        """A request is sent now."""
        now_s = self._clock()
        if self._sent_s is not None and now_s > self._sent_s and self._count:
            self._observed_per_s = self._count / (now_s - self._sent_s)
        self._sent_s, self._count = now_s, count

    def overloaded(self) -> None:
        """The server has refused the request for now."""
        current = self._per_s or max(self._observed_per_s, float(self._count))
        if self._per_s is None:
            self._too_high_per_s = current
        self._per_s = max(LOWEST_PER_S, current / 2)

    def accepted(self) -> None:
        if self._per_s is not None:
            self._per_s *= _GROWTH
            if self._per_s > _UNLIMITED * max(self._too_high_per_s, LOWEST_PER_S):
                self._per_s = None
