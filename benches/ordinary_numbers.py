"""Ordinary numbers: generated texts in which nothing should be redacted."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from typing import Final

Generator = Callable[[random.Random], str]


def _row(chance: random.Random) -> str:
    return " ".join(str(chance.randint(0, 9999)) for _ in range(chance.randint(5, 12)))


def _doi(chance: random.Random) -> str:
    journal, year = chance.choice([41586, 41467, 41598, 41592]), chance.randint(15, 25)
    return f"10.1038/s{journal}-0{year}-{chance.randint(0, 99999):04d}-{chance.randint(0, 9)}"


def _moment(chance: random.Random) -> str:
    day = f"{chance.randint(1, 28):02d}-{chance.randint(1, 12):02d}-{chance.randint(1950, 2030)}"
    return f"{day} {chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}"


def _isbn(chance: random.Random) -> str:
    digits = f"{chance.randint(0, 10**9 - 1):09d}"
    return f"978-{digits[0]}-{digits[1:4]}-{digits[4:9]}-{chance.randint(0, 9)}"


GENERATORS: Final[dict[str, Generator]] = {
    "floats": lambda chance: repr(chance.random()),
    "timestamps in ms": lambda chance: str(chance.randint(1_500 * 10**9, 1_800 * 10**9)),
    "timestamps in us": lambda chance: str(chance.randint(1_500 * 10**12, 1_800 * 10**12)),
    "rows of numbers": _row,
    "DOIs of Nature": _doi,
    "dates and times": _moment,
    "ISBNs": _isbn,
    "coordinates": lambda chance: f"{chance.uniform(-90, 90):.6f}, {chance.uniform(-180, 180):.6f}",
    "UUIDs": lambda chance: str(uuid.UUID(int=chance.getrandbits(128))),
    "numbers of ten digits": lambda chance: str(chance.randint(10**9, 10**10 - 1)),
}
AMBIGUOUS: Final[dict[str, Generator]] = {
    "numbers of 16 digits": lambda chance: str(chance.randint(10**15, 10**16 - 1)),
    "rows of exactly four times four digits": lambda chance: " ".join(
        str(chance.randint(1000, 9999)) for _ in range(4)
    ),
}
"""Numbers in the form of a card: one in about thirty has an issuer and a valid check digit."""


def texts(generator: Generator, count: int) -> Iterator[str]:
    chance = random.Random(10)
    return (generator(chance) for _ in range(count))
