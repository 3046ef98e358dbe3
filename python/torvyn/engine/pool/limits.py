"""The limits of a pool, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from torvyn.errors import InvalidInput

_LEAST: Final = {"max_waiting": 0, "retries": 0, "min_members": 0, "scale_down_after_s": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`max_in_flight` is per member; the others are the pool's."""

    max_in_flight: int = 64
    max_waiting: int = 256
    max_wait_s: float = 10.0
    retries: int = 1
    health_interval_s: float = 2.0
    min_members: int = 1
    max_members: int = 1
    scale_up_wait_s: float = 0.5
    scale_down_after_s: float = 60.0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Limits:
        known = [item.name for item in fields(cls)]
        if unknown := sorted(set(options) - set(known)):
            listing = ", ".join(f"`{name}`" for name in known)
            raise bad_option(f"`{unknown[0]}` is not an option", f"its limits are {listing}")
        return cls(**options)

    def __post_init__(self) -> None:
        for item in fields(self):
            value, least = getattr(self, item.name), _LEAST.get(item.name)
            if value < least if least is not None else value <= 0:
                above = "above 0" if least is None else f"{least} or more"
                raise bad_option(f"`{item.name}` must be {above}, not {value!r}")
        if self.max_members < self.min_members:
            raise bad_option(f"`max` ({self.max_members}) is below `min` ({self.min_members})")


def bad_option(problem: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput(f"pool: {problem}", hint=hint, code="engine.bad-option")
