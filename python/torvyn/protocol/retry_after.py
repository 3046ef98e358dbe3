"""How long a server asks clients to wait: `Retry-After`, in seconds or until a date."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime


def retry_after_s(header: str | None, date: str | None = None) -> float | None:
    """Seconds from now; None when the header is missing or cannot be understood.

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
    return max(0.0, seconds) if math.isfinite(seconds) else None


def asked_pause_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks for, by its headers in lower case. `retry-after-ms`, which
    OpenAI's clients know, is more exact."""
    with contextlib.suppress(ValueError):
        milliseconds = float(headers.get("retry-after-ms", ""))
        if math.isfinite(milliseconds):
            return max(0.0, milliseconds / 1000)
    return retry_after_s(headers.get("retry-after"), headers.get("date"))


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
