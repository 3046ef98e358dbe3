"""Sizes and durations: `64MiB`, `100us`, and back.

`parse_size(render_size(n)) == n`, and the same for durations, which are whole nanoseconds so that
no text is too long.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

SIZE_UNITS: Final = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
DURATION_UNITS: Final = {
    "us": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,12})?) ?([A-Za-z]*)", re.ASCII)
SIZE_PATTERN: Final = r"^[0-9]{1,18}(\.[0-9]{1,12})? ?(B|KiB|MiB|GiB)$"
DURATION_PATTERN: Final = r"^[0-9]{1,18}(\.[0-9]{1,12})? ?(us|ms|s|m|h)$"


def parse_size(text: str) -> int | None:
    """Bytes, or None when the text is no size or no whole number of bytes."""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in SIZE_UNITS:
        return None
    size = Fraction(found[1]) * SIZE_UNITS[found[2]]
    return int(size) if size.denominator == 1 else None


def parse_duration(text: str) -> float | None:
    """Seconds, or None when the text is no duration."""
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in DURATION_UNITS:
        return None
    nanoseconds = round(Fraction(found[1]) * DURATION_UNITS[found[2]] * 10**9)
    return float(Fraction(nanoseconds, 10**9))


def render_size(size_bytes: int) -> str:
    """The size in the largest unit that divides it."""
    for unit, factor in reversed(SIZE_UNITS.items()):
        if size_bytes % factor == 0 and size_bytes:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def render_duration(seconds: float) -> str:
    """The duration in the largest unit that gives a whole number."""
    exact = Fraction(repr(float(seconds)))
    for unit, factor in reversed(DURATION_UNITS.items()):
        if (exact / factor).denominator == 1 and exact:
            return f"{exact / factor}{unit}"
    return f"{Decimal(repr(float(seconds))):f}s"
