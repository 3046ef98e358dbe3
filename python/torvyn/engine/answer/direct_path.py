"""The direct path: plain text of an upstream reaches the client without a step in Python.

An engine that reads its upstream natively arms the path each time it is about to wait. From then on
native code parses chunks, feeds the guards and writes frames, as long as chunks are text of the
only choice and nothing else. Anything else ends the path until it is armed again: what was counted
is taken over here, and the engine goes on as if there were no such path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torvyn._native import DirectText
from torvyn.engine.delta import Piece

if TYPE_CHECKING:
    from torvyn._native import ChunkParser, WireReply
    from torvyn.engine.answer.answer_flows import AnswerFlows
    from torvyn.engine.answer.response import Response
    from torvyn.engine.timing import Timing

__all__ = ["DirectPath", "DirectText", "Offer"]

Offer = Callable[[], DirectText | None]
"""Where text may go, unless the reader has to see it."""


class DirectPath:
    """The path of one run, for one choice without log probabilities."""

    __slots__ = ("_flows", "_offer", "_outputs", "_reply", "_response", "_text", "_timing")

    def __init__(
        self, offer: Offer, response: Response, flows: AnswerFlows | None, timing: Timing
    ) -> None:
        self._offer: Offer | None = offer
        self._response = response
        self._flows = flows
        self._timing = timing
        self._text: DirectText | None = None
        self._reply: WireReply | None = None
        self._outputs: list[Any] | None = None

    def arm(self, parser: ChunkParser, reply: WireReply) -> None:
        """Call it before the engine waits for the reply."""
        flows, offer = self._flows, self._offer
        if offer is None or not self._response.choices[0].is_plain:
            return
        flow = None if flows is None else flows.direct_flow
        if flows is not None and flow is None:
            return
        if (text := offer()) is not None:
            self._text, self._reply = text, reply
            reply.arm(text, parser, flow)

    def disarm(self) -> None:
        """What arrives next takes the ordinary path."""
        if self._reply is not None:
            self._reply.disarm()
        self.count()

    def count(self) -> None:
        """Takes over what was counted."""
        if self._text is None:
            return
        tokens, times_s, outputs = self._text.take()
        self._response.choices[0].tokens += tokens
        for at_s in times_s:
            self._timing.delivered(at_s)
        if outputs is not None:
            self._outputs = outputs

    def absorb(self) -> Sequence[Piece]:
        """The same; returns what left the flow and is not only text."""
        self.count()
        outputs, self._outputs = self._outputs, None
        if outputs is None or self._flows is None:
            return ()
        return self._flows.absorb(outputs)

    def close(self) -> None:
        """Also breaks the reference cycle with the reader."""
        self.disarm()
        self._offer = self._reply = None
