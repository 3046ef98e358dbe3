"""How often, and how long, a client tries again. Pure: the clock and chance come from outside.

Pauses grow exponentially with full jitter, so that clients of a server that comes back do not all
come at once. A server that names a pause gets at least that. Whatever arrives starts it anew.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

RETRY_PAUSE_S: Final = 0.25
RESUME_PAUSE_S: Final = 0.05
"""The first ones are this long at most. Who reads an answer notices a pause."""
LONGEST_PAUSE_S: Final = 10.0


class Patience:
    """`pause_s` after a failure; None when it is used up."""

    def __init__(
        self,
        most: int,
        for_s: float,
        first_s: float,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._most = most
        self._for_s = for_s
        self._first_s = first_s
        self._clock = clock
        self._chance = chance
        self.tries = 0
        self._since_s: float | None = None

    def renew(self) -> None:
        """Something arrived: what failed before does not count."""
        self.tries = 0
        self._since_s = None

    def pause_s(self, wanted_s: float | None = None) -> float | None:
        """How long to wait before the next try. `wanted_s` is what the server asks for."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        left_s = self._since_s + self._for_s - now_s
        if self.tries >= self._most or left_s <= 0:
            return None
        longest_s = min(LONGEST_PAUSE_S, self._first_s * 2.0 ** min(self.tries, 16))
        pause_s = self._chance() * longest_s
        if wanted_s is not None:
            if wanted_s > left_s:
                return None
            pause_s += wanted_s
        self.tries += 1
        return min(pause_s, left_s)
