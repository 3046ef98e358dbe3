"""A circuit breaker: keeps requests away from a member that fails.

Closed, every request passes. After failures in a row it is open: none passes until a pause is over,
which grows with each failed attempt. Then it is half-open: one request passes, and its ending
closes or opens it. Not thread-safe; its owner has a lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal

from torvyn._io.backoff import Backoff

State = Literal["closed", "open", "half-open"]
MOST_FAILURES: Final = 3
"""Failures in a row that open it."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0


class Breaker:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._retry_at_s: float | None = None

    @property
    def state(self) -> State:
        if self._retry_at_s is None:
            return "closed"
        return "open" if self._clock() < self._retry_at_s else "half-open"

    def fail(self, *, is_gone: bool = False) -> None:
        """`is_gone`: nothing answers at its address, so one failure is enough."""
        if self.state == "open":
            # Requests that were running when it opened: one outage is one failure.
            return
        self._failures += 1
        if is_gone or self._retry_at_s is not None or self._failures >= MOST_FAILURES:
            self._retry_at_s = self._clock() + self._backoff.next_delay_s()

    def succeed(self) -> None:
        self._failures = 0
        self._retry_at_s = None
        self._backoff.reset()

    def retry_now(self) -> None:
        """The member has come back: an open breaker need not wait."""
        if self._retry_at_s is not None:
            self._retry_at_s = self._clock()
