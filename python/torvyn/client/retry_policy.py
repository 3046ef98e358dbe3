"""How often and how long a client retries. Pure: the clock and the random numbers are arguments.

Delays grow exponentially with full jitter, so that clients do not all return at once after an
outage. If the server names a delay, the client waits at least that long.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torvyn.errors import TorvynError

FIRST_RETRY_DELAY_S: Final = 0.25
FIRST_RESUME_DELAY_S: Final = 0.05
"""Short, because a person may be reading the answer."""
LONGEST_DELAY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries are for requests that have not been answered, resumes for stateful streams."""

    retries: int = 3
    retry_for_s: float = 30.0
    resumes: int = 20
    resume_for_s: float = 120.0
    on_reconnect: Callable[[int, TorvynError], None] | None = None


class Backoff:
    """`next_delay_s` after each failure; None when the tries or the time are used up."""

    def __init__(
        self,
        max_tries: int,
        for_s: float,
        first_delay_s: float,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._max_tries = max_tries
        self._for_s = for_s
        self._first_delay_s = first_delay_s
        self._clock = clock
        self._random = random
        self.tries = 0
        self._since_s: float | None = None

    def reset(self) -> None:
        """Forgets earlier failures, because something has arrived."""
        self.tries = 0
        self._since_s = None

    def next_delay_s(self, retry_after_s: float | None = None) -> float | None:
        """How long to wait before the next try. `retry_after_s` is what the server asks for."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        left_s = self._since_s + self._for_s - now_s
        if self.tries >= self._max_tries or left_s <= 0:
            return None
        longest_s = min(LONGEST_DELAY_S, self._first_delay_s * 2.0 ** min(self.tries, 16))
        delay_s = self._random() * longest_s
        if retry_after_s is not None:
            if retry_after_s > left_s:
                return None
            delay_s += retry_after_s
        self.tries += 1
        return min(delay_s, left_s)
