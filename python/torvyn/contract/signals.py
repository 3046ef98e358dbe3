"""Signals: return values of a component that are not data.

`PENDING` means "nothing yet", `End` means "no more", `Signal` means "ready" or "pause".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final


class Signal(enum.Enum):
    """Back-pressure: what a sink returns, and what a source receives."""

    READY = "ready"
    PAUSE = "pause"


class Pending:
    """Nothing yet: the flow waits until `Source.wake()` is called or `after_s` has passed."""

    __slots__ = ("after_s",)

    def __init__(self, after_s: float | None = None) -> None:
        self.after_s = after_s

    def after(self, seconds: float) -> Pending:
        """The same signal with a timer: the flow pulls again after `seconds`."""
        return Pending(seconds)

    def __repr__(self) -> str:
        return "PENDING" if self.after_s is None else f"PENDING.after({self.after_s!r})"


PENDING: Final = Pending()


@dataclass(frozen=True, slots=True)
class End:
    """How a stream ended. It follows the last element to `Sink.complete` and to `Flow.end`."""

    finish_reason: str = "stop"
    usage: Mapping[str, Any] | None = None
    matched_stop: str | None = None
    reason: str | None = None
    """The reason that a filter gave with `Verdict.block`."""
    side: str | None = None
    """Which side was filtered when an engine's answer ended with `content_filter`: `prompt` or
    `completion`. None outside of an engine's answer."""

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}
