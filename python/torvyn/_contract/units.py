"""Durations and sizes as people write them, `"100ms"` and `"1KiB"`: parsed and rendered.

Manifests and component options share these parsers. An error is a `ValueError` with a whole
sentence; the caller adds the place. `parse_size_bytes(render_size(n)) == n`, and the same for
durations, which are rounded to nanoseconds so that their texts stay short.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

_NUMBER_AND_UNIT: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-zµμ]*)\s*")


@dataclass(frozen=True)
class _Scale:
    name: str
    example: str
    units: dict[str, Fraction]
    misspelt: dict[str, str]
    """Other spellings in lower case -> the unit."""
    base_unit: str


_DURATION: Final = _Scale(
    "duration",
    "100ms",
    # Fractions, so that "100us" is the float 0.0001 and not a product of two roundings.
    {
        "us": Fraction(1, 1_000_000),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "m": Fraction(60),
        "h": Fraction(3600),
    },
    {
        **dict.fromkeys(("µs", "μs", "usec", "micros", "microseconds"), "us"),
        **dict.fromkeys(("msec", "millis", "milliseconds"), "ms"),
        **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
        **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    },
    "s",
)
_SIZE: Final = _Scale(
    "size",
    "1KiB",
    {
        "B": Fraction(1),
        "KiB": Fraction(1024),
        "MiB": Fraction(1024**2),
        "GiB": Fraction(1024**3),
    },
    {"k": "KiB", "kb": "KiB", "m": "MiB", "mb": "MiB", "g": "GiB", "gb": "GiB", "bytes": "B"},
    "B",
)

DURATION_UNITS: Final = tuple(_DURATION.units)
SIZE_UNITS: Final = tuple(_SIZE.units)


def parse_duration_s(text: str | float) -> float:
    """Seconds from `"100ms"`, in whole nanoseconds, or from a number of seconds."""
    seconds = _parse(text, _DURATION)
    if isinstance(seconds, Fraction):
        seconds = Fraction(round(seconds * 10**9), 10**9)
    return float(seconds)


def parse_size_bytes(text: str | float) -> int:
    """Bytes from `"1KiB"`, or from a whole number of bytes."""
    size = _parse(text, _SIZE)
    if size != int(size):
        raise ValueError(f"the size {text!r} is not a whole number of bytes")
    return int(size)


def _parse(value: str | float, scale: _Scale) -> Fraction | float:
    if isinstance(value, str):
        return _parse_text(value, scale)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kind = type(value).__name__
        raise ValueError(
            f'a {scale.name} is a number or text such as "{scale.example}", not {kind}'
        )
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"a {scale.name} cannot be {value!r}")
    return value


def _parse_text(text: str, scale: _Scale) -> Fraction:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise ValueError(
            f'{text!r} is not a {scale.name}; write a number and a unit, such as "{scale.example}"'
        )
    number, unit = match.groups()
    factor = scale.units.get(unit)
    if factor is None:
        raise ValueError(_unit_error(number, unit, scale))
    return Fraction(number) * factor


def _unit_error(number: str, unit: str, scale: _Scale) -> str:
    known = f"the units are {', '.join(scale.units)}"
    if not unit:
        return (
            f'the {scale.name} "{number}" has no unit; {known}; write "{number}{scale.base_unit}"?'
        )
    spellings = {**scale.misspelt, **{name.lower(): name for name in scale.units}}
    meant = spellings.get(unit.lower())
    guess = f'; did you mean "{number}{meant}"?' if meant else ""
    return f'"{unit}" is not a unit of {scale.name}; {known}{guess}'


_NUMBER: Final = r"^\s*[0-9]{1,18}(\.[0-9]{1,18})?\s*"
SIZE_PATTERN: Final = rf"{_NUMBER}({'|'.join(SIZE_UNITS)})\s*$"
DURATION_PATTERN: Final = rf"{_NUMBER}({'|'.join(DURATION_UNITS)})\s*$"


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
