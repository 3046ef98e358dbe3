"""`Retry-After`: how long an upstream wants to be left alone, in seconds or until a date."""

from __future__ import annotations

import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after_s(header: str | None, date: str | None = None) -> float | None:
    """Seconds from now; None when the header is missing or says nothing.

    `date` is when the upstream says it is: by its own clock its pause is exact, whatever ours says.
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        until = _timestamp_s(header)
        if until is None:
            return None
        now = _timestamp_s(date)
        seconds = until - (time.time() if now is None else now)
    return max(0.0, seconds) if not math.isnan(seconds) else None


def _timestamp_s(date: str | None) -> float | None:
    """Of an HTTP date, in any of its three forms."""
    if not date:
        return None
    try:
        found = parsedate_to_datetime(date)
        # The oldest form names no zone; HTTP has one.
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
