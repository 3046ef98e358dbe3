"""Verdicts: a filter's decisions about an element, beyond True and False."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from torvyn.contract.enums import VerdictKind

if TYPE_CHECKING:
    from torvyn.contract.element import Output

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
