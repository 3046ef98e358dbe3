"""A case: a fault, the limit that must hold, and the function that measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


class SkipCase(Exception):
    """The case cannot run on this machine; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure and its samples."""

    value: float
    samples: list[float] = field(default_factory=list)
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    fault: str
    how: str
    limit: float
    """The maximum of the figure."""
    unit: str
    measure: Callable[[int], Measurement]
    """Takes the number of rounds."""

    @property
    def limit_text(self) -> str:
        return f"<= {self.limit:g} {self.unit}".rstrip()

    def run(self, rounds: int) -> dict[str, Any]:
        result: dict[str, Any] = {"name": self.name, "fault": self.fault, "how": self.how}
        result |= {"gate": self.limit_text, "limit": self.limit, "unit": self.unit}
        result["rounds"] = rounds
        result["measured_at"] = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            measurement = self.measure(rounds)
        except SkipCase as reason:
            return result | {"measured": None, "is_met": None, "left_out": str(reason)}
        result |= {"measured": measurement.value, "samples": measurement.samples}
        return result | {
            "detail": measurement.detail,
            "is_met": measurement.value <= self.limit,
        }
