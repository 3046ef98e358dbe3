"""What a report says. It has no data of flows, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from torvyn.edge.channel import fields

MAX_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Report:
    device: str
    deployment: str
    sent: str
    """When, by the clock of the device."""
    torvyn: str
    generation: int | None = None
    project: str = ""
    version: int | None = None
    """Of the channel that named the generation."""
    seen_version: int = 0
    """The newest version of the channel that the device has accepted."""
    health: str = "stopped"
    """The state of its flow: moving, idle, waiting, stalled or silent."""
    is_on_trial: bool = False
    stale_s: float = 0.0
    """For how long the channel's document has been expired."""
    produced: int = 0
    emitted: int = 0
    errors: int = 0
    last_error: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"schema": 1, **asdict(self)}

    @classmethod
    def parse(cls, data: bytes) -> Report:
        """From outside. Raises `ValueError`."""
        value = fields.parse(data, MAX_BYTES)
        fields.check_schema(value)
        return cls(
            device=_name(value, "device"),
            deployment=_name(value, "deployment"),
            sent=fields.render_time(fields.time_s(value, "sent")),
            torvyn=fields.text(value, "torvyn", 64),
            generation=_number(value, "generation"),
            project=fields.text(value, "project", 256),
            version=_number(value, "version"),
            seen_version=fields.number(value, "seen_version"),
            health=fields.text(value, "health", 32),
            is_on_trial=value.get("is_on_trial") is True,
            stale_s=_seconds(value, "stale_s"),
            produced=fields.number(value, "produced"),
            emitted=fields.number(value, "emitted"),
            errors=fields.number(value, "errors"),
            last_error=fields.text(value, "last_error", 2000),
        )


def _name(value: Mapping[str, Any], key: str) -> str:
    found = fields.text(value, key, 128)
    if not _NAME.fullmatch(found):
        raise ValueError(f"`{key}` is not a name of letters, digits, `.`, `_` and `-`")
    return found


def _number(value: Mapping[str, Any], key: str) -> int | None:
    return None if value.get(key) is None else fields.number(value, key)


def _seconds(value: Mapping[str, Any], key: str) -> float:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        raise ValueError(f"`{key}` is not a number of seconds")
    return float(found)
