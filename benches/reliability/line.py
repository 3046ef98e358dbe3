"""A line: a fault, the gate that must hold, and how its figure is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class LeftOut(Exception):
    """This machine lacks what the line needs; the text says what."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with what it was made from."""

    value: float
    samples: list[float] = field(default_factory=list)
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    fault: str
    how: str
    limit: float
    """The figure must not be above it."""
    unit: str
    measure: Callable[[int], Measured]
    """Takes the number of rounds."""

    @property
    def gate(self) -> str:
        return f"<= {self.limit:g} {self.unit}".rstrip()

    def run(self, rounds: int) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": self.name, "fault": self.fault, "how": self.how}
        facts |= {"gate": self.gate, "limit": self.limit, "unit": self.unit}
        try:
            found = self.measure(rounds)
        except LeftOut as reason:
            return facts | {"measured": None, "is_met": None, "left_out": str(reason)}
        measured = {"measured": found.value, "samples": found.samples, "detail": found.detail}
        return facts | measured | {"is_met": found.value <= self.limit}
