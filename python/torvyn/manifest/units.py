"""Sizes and durations of the manifest: parsed with the contract's units, and rendered.

`parse_size(render_size(n)) == n`, and the same for durations, which are rounded to nanoseconds so
that their texts stay short.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from torvyn.contract.units import (
    DURATION_UNITS,
    SIZE_UNITS,
    parse_duration_s,
    parse_size_bytes,
)

_NUMBER: Final = r"^\s*[0-9]{1,18}(\.[0-9]{1,18})?\s*"
SIZE_PATTERN: Final = rf"{_NUMBER}({'|'.join(SIZE_UNITS)})\s*$"
DURATION_PATTERN: Final = rf"{_NUMBER}({'|'.join(DURATION_UNITS)})\s*$"

parse_size: Final = parse_size_bytes


def parse_duration(text: str) -> float:
    """The seconds; raises `ValueError` when the text is not a duration."""
    return float(Fraction(round(Decimal(repr(parse_duration_s(text))) * 10**9), 10**9))


def render_size(size_bytes: float) -> str:
    """The size in the largest unit that divides it."""
    for unit in reversed(SIZE_UNITS):
        factor = parse_size_bytes(f"1{unit}")
        if size_bytes and size_bytes % factor == 0:
            return f"{int(size_bytes) // factor}{unit}"
    return f"{int(size_bytes)}B"


def render_duration(seconds: float) -> str:
    """The duration in the largest unit that gives a whole number."""
    exact = Fraction(repr(float(seconds)))
    for unit in reversed(DURATION_UNITS):
        count = exact / Fraction(repr(parse_duration_s(f"1{unit}")))
        if exact and count.denominator == 1:
            return f"{count}{unit}"
    return f"{Decimal(repr(float(seconds))):f}s"
