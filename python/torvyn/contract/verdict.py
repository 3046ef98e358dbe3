"""Verdicts: what a filter may say of an element, beyond yes and no."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    from torvyn.contract.element import Output

Kind = Literal["pass", "drop", "replace", "block", "hold"]


class Verdict:
    """A filter's judgement.

    Held elements stay in order: the next `PASS` releases them, `DROP` discards them with the
    current one, `replace` puts something else in the place of them all, and the end of the stream
    releases them.
    """

    __slots__ = ("kind", "reason", "text")

    PASS: ClassVar[Verdict]
    DROP: ClassVar[Verdict]
    HOLD: ClassVar[Verdict]

    def __init__(
        self,
        kind: Kind,
        text: str | list[Output] | None = None,
        reason: str | None = None,
    ) -> None:
        self.kind: Final = kind
        self.text: Final = text
        self.reason: Final = reason

    @classmethod
    def replace(cls, text: str | list[Output]) -> Verdict:
        """Send `text` in the place of this element and of all that are held; of empty text,
        nothing. What the element said of single tokens (ids, probabilities) goes with it. A list
        is sent as it is: each output has its own attributes."""
        return cls("replace", text=text)

    @classmethod
    def block(cls, reason: str, before: list[Output] | None = None) -> Verdict:
        """End the stream here with finish reason `content_filter`; nothing held leaves. What comes
        `before` the block is sent first."""
        return cls("block", text=before, reason=reason)

    @classmethod
    def hold(cls) -> Verdict:
        """Keep this element back until a later verdict decides."""
        return cls.HOLD

    def __repr__(self) -> str:
        detail = self.text if self.text is not None else self.reason
        return f"Verdict.{self.kind}" + ("" if detail is None else f"({detail!r})")


Verdict.PASS = Verdict("pass")
Verdict.DROP = Verdict("drop")
Verdict.HOLD = Verdict("hold")
