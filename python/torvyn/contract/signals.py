"""Signals: the answers of a component that are not data.

`PENDING` says "nothing yet", `End` says "nothing more", `Signal` says "more, please" or "wait".
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final


class Signal(enum.Enum):
    """Back-pressure, in both directions: what a sink answers and what a source is told."""

    READY = "ready"
    PAUSE = "pause"


class Pending:
    """A source's "nothing yet": the flow parks until `Source.wake()` is called or `after_s` has
    passed."""

    __slots__ = ("after_s",)

    def __init__(self, after_s: float | None = None) -> None:
        self.after_s = after_s

    def after(self, seconds: float) -> Pending:
        """The same answer with an alarm: the source is asked again after `seconds`."""
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
    """Why, in words: the reason a filter gave with `Verdict.block`."""
    side: str | None = None
    """What was filtered, when an engine's answer ended as `content_filter`: the `prompt`, or the
    `completion`. None: a filter that no engine knows of."""

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}
