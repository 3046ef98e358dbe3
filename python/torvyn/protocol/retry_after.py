"""How long a server asks clients to wait: `Retry-After`, in seconds or until a date."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

logger = logging.getLogger("torvyn.protocol")

LONGEST_PAUSE_S: Final = 86_400.0
"""A longer wait is a mistake of the server, and no clock can wait for some that are written."""


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
    try:
        moment = parsedate_to_datetime(date)
        # The oldest form names no time zone; HTTP dates are always GMT.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
