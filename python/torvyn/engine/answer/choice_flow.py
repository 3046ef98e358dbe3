"""One flow between an engine and its reader: deltas go in, deltas come out."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torvyn.contract import Element, End, Output
from torvyn.engine.delta import Delta
from torvyn.errors import FlowError, TorvynError
from torvyn.protocol.frames import Kind

if TYPE_CHECKING:
    from torvyn.reactor import Flow


class Lane:
    """One flow, fed with deltas of one choice: of one kind, or of all if it tells them apart."""

    def __init__(self, index: int, kind: Kind, flow: Flow) -> None:
        self.index = index
        self.kind = kind
        self.flow = flow
        self.waiting: deque[Any] = deque()
        self.before: Lane | None = None
        """The lane of the same choice whose output leaves first."""
        self.after: list[Delta] = []
        """What leaves when this has ended."""
        self.is_over = False
        self._end: End | None = None
        self._is_finished = False

    @property
    def is_blocked(self) -> bool:
        """A guard has ended it, and with it the choice."""
        end = self.flow.end
        return end is not None and end.finish_reason == "content_filter"

    def add(self, delta: Delta) -> None:
        """It goes in with the next `go_on`."""
        if self.index == 0 and is_plain(delta):
            # What says nothing of itself is text of the first choice: most of what there is.
            self.waiting.append(delta.text)
            return
        attributes: dict[str, Any] = {"choice": self.index, "kind": delta.kind}
        if delta.logprobs is not None or delta.token_ids:
            attributes = {**attributes, "logprobs": delta.logprobs, "token_ids": delta.token_ids}
        self.waiting.append(Output(delta.text, attributes=attributes))

    def add_call(self, delta: Delta) -> None:
        """A call of a tool, behind the text before it."""
        attributes = {"choice": self.index, "kind": "tool_call", "call": delta}
        self.waiting.append(Output("", attributes=attributes))

    def say(self, text: str, out: list[Delta]) -> str | list[Delta]:
        """Plain text, when nothing waits and every stage is inline: the common case. What leaves
        is given as it is when it is plain text too."""
        try:
            said = self.flow.feed_text(text)
        except FlowError as error:
            self.is_over = True
            self._give(error.ready, out)
            raise
        if isinstance(said, str):
            return said
        self._give(said, out)
        self.is_over = self.flow.end is not None
        return out

    def finish(self, end: End) -> None:
        """No more will be added; the flow hears of it when all that waits has gone in."""
        self._end = end

    def go_on(self, out: list[Delta]) -> None:
        """Feeds what waits as far as it goes; what has become ready goes out."""
        if self.is_over:
            self.waiting.clear()
            return
        if self.before is not None:
            self.before.go_on(out)
            if not self.before.is_over or self.before.is_blocked:
                return
            self.before = None
        try:
            if self.waiting:
                self._feed(out)
            elif self._end is None or self._is_finished:
                self._give(self.flow.ready(), out)
            if self._end is not None and not self.waiting and not self._is_finished:
                self._is_finished = True
                if self.flow.end is None:
                    self._give(self.flow.finish(self._end), out)
        except FlowError as error:
            self.is_over = True
            # What had left the flow before it failed.
            self._give(error.ready, out)
            raise
        self.is_over = self.flow.end is not None
        if self.is_over and self.after:
            out.extend(self.after)
            self.after.clear()

    def open(self) -> None:
        """Starts the flow now and not with its first item. May block."""
        self.flow.feed([])

    def close(self) -> None:
        """Ends the flow, whatever it is doing, and takes it down. May block."""
        self.waiting.clear()
        self.is_over = True
        self.flow.cancel()
        with contextlib.suppress(TorvynError):
            self.flow.ready()

    def _feed(self, out: list[Delta]) -> None:
        waiting = self.waiting
        batch = list(waiting)
        waiting.clear()
        try:
            elements: Sequence[Element] = self.flow.feed(batch)
        except FlowError as error:
            if error.code != "reactor.feed-full":
                raise
            elements = error.ready
            waiting.extend(batch[error.taken or 0 :])
        if elements:
            self._give(elements, out)

    def _give(self, elements: Sequence[Element], out: list[Delta]) -> None:
        for element in elements:
            held, text = element.attributes, element.text
            if text:
                ids = held.get("token_ids") or ()
                kind = held.get("kind", self.kind)
                out.append(Delta(self.index, text, kind, None, held.get("logprobs"), ids))
            elif "call" in held:
                call: Delta = held["call"]
                out.append(Delta(self.index, "", "tool_call", call.call, call.logprobs))


def is_plain(delta: Delta) -> bool:
    """Text and nothing else."""
    return (
        delta.kind == "text"
        and delta.finish_reason is None
        and not delta.token_ids
        and delta.logprobs is None
        and delta.text != ""
    )
