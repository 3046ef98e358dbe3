"""One flow between an engine and its reader: pieces of one choice go in, pieces come out."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torvyn._contract.element import Element, Output
from torvyn._contract.signals import End
from torvyn.engine.delta import Delta, Piece
from torvyn.errors import FlowError, TorvynError
from torvyn.protocol.frames import Kind

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow


class ChoiceFlow:
    """A flow for the deltas of one choice: of one kind, or of all kinds if it tells them apart."""

    def __init__(self, index: int, kind: Kind, flow: Flow) -> None:
        self.index = index
        self.kind = kind
        self.flow = flow
        self.waiting: deque[str | Output] = deque()
        self.before: ChoiceFlow | None = None
        """The flow of the same choice whose output leaves first."""
        self.after: list[Piece] = []
        """What leaves when this flow has ended."""
        self.is_over = False
        self._end: End | None = None
        self._is_finished = False

    @property
    def is_blocked(self) -> bool:
        """A guard has ended the flow, and with it the choice."""
        end = self.flow.end
        return end is not None and end.finish_reason == "content_filter"

    @property
    def is_direct(self) -> bool:
        """Text may go in at once: nothing has to leave before it."""
        return not self.is_over and self.before is None

    def add(self, piece: Piece) -> None:
        """Queues a piece with text for the next `advance`."""
        if isinstance(piece, str):
            self.waiting.append(piece)
            return
        attributes: dict[str, Any] = {"choice": self.index, "kind": piece.kind}
        if piece.logprobs is not None or piece.token_ids:
            attributes["logprobs"], attributes["token_ids"] = piece.logprobs, piece.token_ids
        self.waiting.append(Output(piece.text, attributes=attributes))

    def add_call(self, delta: Delta) -> None:
        """Queues a tool call behind the text before it."""
        attributes = {"choice": self.index, "kind": "tool_call", "call": delta}
        self.waiting.append(Output("", attributes=attributes))

    def feed_text(self, text: str, out: list[Piece]) -> Sequence[Piece]:
        """`add` and `advance` in one call, for a flow of inline stages with nothing queued. It
        makes no `Element` for text that leaves without attributes."""
        try:
            fed = self.flow.feed_text(text)
        except FlowError as error:
            self._fail(error, out)
            raise
        if isinstance(fed, str):
            return (fed,) if fed else ()
        self._emit(fed, out)
        self.is_over = self.flow.end is not None
        return out

    def absorb(self, outputs: list[Element], out: list[Piece]) -> None:
        """The outputs of text that was fed to the native flow itself."""
        try:
            self._emit(self.flow._absorb(outputs), out)
        except FlowError as error:
            self._fail(error, out)
            raise
        self.is_over = self.flow.end is not None

    def finish(self, end: End) -> None:
        """Nothing more will be added; the flow ends when it has taken what is queued."""
        self._end = end

    def advance(self, out: list[Piece]) -> None:
        """Feeds what is queued, as far as the flow takes it, and appends what leaves to `out`."""
        if self.is_over:
            self.waiting.clear()
            return
        if self.before is not None:
            self.before.advance(out)
            if not self.before.is_over or self.before.is_blocked:
                return
            self.before = None
        try:
            if self.waiting:
                self._feed(out)
            elif self._end is None or self._is_finished:
                self._emit(self.flow.ready(), out)
            if self._end is not None and not self.waiting and not self._is_finished:
                self._is_finished = True
                if self.flow.end is None:
                    self._emit(self.flow.finish(self._end), out)
        except FlowError as error:
            self._fail(error, out)
            raise
        self.is_over = self.flow.end is not None
        if self.is_over and self.after:
            out.extend(self.after)
            self.after.clear()

    def open(self) -> None:
        """Starts the flow now instead of with its first element. May block."""
        self.flow.feed([])

    def close(self) -> None:
        """Cancels the flow and tears it down. May block."""
        self.waiting.clear()
        self.is_over = True
        self.flow.cancel()
        with contextlib.suppress(TorvynError):
            self.flow.ready()

    def _feed(self, out: list[Piece]) -> None:
        waiting = self.waiting
        batch = list(waiting)
        waiting.clear()
        try:
            elements: Sequence[Element] = self.flow.feed(batch)
        except FlowError as error:
            if error.code != "reactor.feed-full":
                raise
            elements = error.ready
            waiting.extend(batch[error.accepted or 0 :])
        if elements:
            self._emit(elements, out)

    def _fail(self, error: FlowError, out: list[Piece]) -> None:
        """Keeps what had left the flow before it failed."""
        self.is_over = True
        self._emit(error.ready, out)

    def _emit(self, elements: Sequence[Element], out: list[Piece]) -> None:
        for element in elements:
            attributes, text = element.attributes, element.text
            if text:
                ids = attributes.get("token_ids") or ()
                kind = attributes.get("kind", self.kind)
                out.append(Delta(self.index, text, kind, None, attributes.get("logprobs"), ids))
            elif "call" in attributes:
                call: Delta = attributes["call"]
                out.append(Delta(self.index, "", "tool_call", call.call, call.logprobs))
