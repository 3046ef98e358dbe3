"""How long to wait before the next try: by our own delays, or as a server asks.

Backoff        delays that grow, without end
Retries        delays until the tries or the time are used up
retry_after_s  the header `Retry-After`, in seconds or until a date
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Final

logger = logging.getLogger("torvyn.protocol")

FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 60.0
LONGEST_PAUSE_S: Final = 86_400.0
"""A longer wait is a mistake of the server, and no clock can wait for some that are written."""


class Backoff:
    """Delays that grow, with full jitter: those who lost the same server do not all come back at
    once. There is no last try.

    No delay is longer than those before it together, so a server that was away for three seconds
    is found again within three more. With delays that merely double, some draws of small delays
    would be followed by a wait of half a minute."""

    def __init__(
        self,
        first_s: float = FIRST_DELAY_S,
        longest_s: float = LONGEST_DELAY_S,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = random
        self._waited_s = 0.0

    def reset(self) -> None:
        """Forgets the failures, because something has worked."""
        self._waited_s = 0.0

    def next_delay_s(self, at_least_s: float = 0.0) -> float:
        """How long to wait before the next try. `at_least_s` is what the other side asks for."""
        delay_s = self._random() * min(self._longest_s, max(self._first_s, self._waited_s))
        self._waited_s += delay_s
        return at_least_s + delay_s


class Retries:
    """Delays until the tries or the time are used up. They double with each try, with full jitter:
    with few tries, the sum of the delays should not depend on the first draws."""

    def __init__(
        self,
        tries: int,
        for_s: float,
        first_s: float,
        longest_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._limit = tries
        self._for_s = for_s
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._random = random
        self.tries = 0
        """How often it was tried again."""
        self._since_s: float | None = None

    def begin(self) -> None:
        """The time counts from now, and not from the first failure."""
        self._since_s = self._clock()

    def reset(self) -> None:
        """Forgets earlier failures, because something has arrived."""
        self.tries = 0
        self._since_s = None

    def next_delay_s(self, at_least_s: float | None = None) -> float | None:
        """How long to wait before the next try; None if there is none, or if the other side asks
        for more time than is left."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        left_s = self._since_s + self._for_s - now_s
        asked_s = at_least_s or 0.0
        if self.tries >= self._limit or left_s <= 0 or asked_s > left_s:
            return None
        longest_s = min(self._longest_s, self._first_s * 2.0 ** min(self.tries, 16))
        self.tries += 1
        return min(asked_s + self._random() * longest_s, left_s)


def retry_after_s(header: str | None, date: str | None = None) -> float | None:
    """Seconds from now, at most `LONGEST_PAUSE_S`; None when the header is missing or cannot be
    understood.

    `date` is the server's `Date` header: measured by the server's own clock, the wait is exact even
    if our clock is wrong.
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        until_s = _timestamp_s(header)
        if until_s is None:
            return None
        now_s = _timestamp_s(date)
        seconds = until_s - (time.time() if now_s is None else now_s)
    return _limited(seconds)


def asked_pause_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks for, by its headers in lower case. `retry-after-ms`, which
    OpenAI's clients know, is more exact."""
    with contextlib.suppress(ValueError):
        pause_s = _limited(float(headers.get("retry-after-ms", "")) / 1000)
        if pause_s is not None:
            return pause_s
    return retry_after_s(headers.get("retry-after"), headers.get("date"))


def _limited(seconds: float) -> float | None:
    if not math.isfinite(seconds):
        return None
    if seconds > LONGEST_PAUSE_S:
        what = "a server asks for a pause of %.3g s; Torvyn takes it as %.0f s"
        logger.warning(what, seconds, LONGEST_PAUSE_S, extra={"event": "retry-after.capped"})
    return min(max(0.0, seconds), LONGEST_PAUSE_S)


def _timestamp_s(date: str | None) -> float | None:
    """Parses an HTTP date in any of its three forms."""
    if not date:
        return None
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
        # The oldest form names no time zone; HTTP dates are always GMT.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
