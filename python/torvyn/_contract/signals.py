"""What a component returns that is no data: signals, and a filter's verdicts.

`PENDING` means "nothing yet", `End` means "no more", `Signal` means "ready" or "pause". A `Verdict`
is a filter's decision about an element, beyond True and False.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from torvyn._contract.enums import VerdictKind

if TYPE_CHECKING:
    from torvyn._contract.element import Output


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


_REPLACE: Final = VerdictKind.REPLACE
_BLOCK: Final = VerdictKind.BLOCK


class Verdict:
    """A filter's decision.

    `HOLD` keeps an element back, in order. The next `PASS` or the end of the stream releases held
    elements, `DROP` discards them with the current one, and `replace` replaces them all.
    """

    __slots__ = ("kind", "reason", "text")

    PASS: ClassVar[Verdict]
    DROP: ClassVar[Verdict]
    HOLD: ClassVar[Verdict]

    def __init__(
        self,
        kind: VerdictKind,
        text: str | list[Output] | None = None,
        reason: str | None = None,
    ) -> None:
        self.kind: Final = kind
        self.text: Final = text
        self.reason: Final = reason

    @classmethod
    def replace(cls, text: str | list[Output]) -> Verdict:
        """Sends `text` instead of this element and all held ones; empty text sends nothing. The
        attributes that describe single tokens (ids, probabilities) are removed. A list is sent as
        it is: each output has its own attributes."""
        return cls(_REPLACE, text=text)

    @classmethod
    def block(cls, reason: str, before: list[Output] | None = None) -> Verdict:
        """Ends the stream with finish reason `content_filter` and discards held elements. The
        outputs in `before` are sent first."""
        return cls(_BLOCK, text=before, reason=reason)

    @classmethod
    def hold(cls) -> Verdict:
        """Keeps this element back until a later verdict decides."""
        return cls.HOLD

    def __repr__(self) -> str:
        detail = self.text if self.text is not None else self.reason
        return f"Verdict.{self.kind}" + ("" if detail is None else f"({detail!r})")


Verdict.PASS = Verdict(VerdictKind.PASS)
Verdict.DROP = Verdict(VerdictKind.DROP)
Verdict.HOLD = Verdict(VerdictKind.HOLD)
