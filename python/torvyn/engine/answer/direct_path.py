"""The direct path: plain text reaches the client in native code, through the guards.

The steps of an engine in Python are read by native code as long as they are text of the only choice
and nothing else: guard, frame and outbox without a call of Python. An engine that reads
its upstream natively arms the path each time it is about to wait. From then on native code parses
chunks, feeds the guards and writes frames, as long as chunks are text of the only choice and
nothing else. Anything else ends the path until it is armed again: what was counted is taken over
here, and the engine goes on as if there were no such path.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from torvyn import _native
from torvyn.engine.delta import Piece
from torvyn.engine.step import Step

if TYPE_CHECKING:
    from torvyn._native import ChunkParser, DirectSteps, DirectText, NativeFlow, WireReply
    from torvyn.engine.answer.answer_flows import AnswerFlows
    from torvyn.engine.answer.response import Response
    from torvyn.engine.timing import Timing

__all__ = ["DirectPath", "DirectText", "Offer"]

_KEPT, _DUE, _FOR_PYTHON = 1, 2, 3
Offer = Callable[[], "DirectText | None"]
"""Where text may go, unless the reader has to see it."""


class DirectPath:
    """The path of one run, for one choice without log probabilities."""

    __slots__ = (
        "_flow",
        "_flows",
        "_is_open",
        "_is_prepared",
        "_offer",
        "_outputs",
        "_reply",
        "_response",
        "_steps",
        "_text",
        "_timing",
        "is_due",
    )

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
        self._flow: NativeFlow | None = None
        self._steps: DirectSteps | None = None
        self._is_open = False
        """Whether text may be put; every ordinary step closes it."""
        self._is_prepared = False
        self.is_due = False
        """It is time to flush what was put."""

    def read(self, steps: AsyncIterator[Step]) -> DirectSteps:
        """The steps that are left to Python, for `pieces`. After text that was put, steps with text
        only do not come out; None does, when the reader must do something."""
        self._steps = _native.DirectSteps(steps)
        return self._steps

    def arm(self, parser: ChunkParser, reply: WireReply) -> None:
        """Call it before the engine waits for the reply, the first time when its request is on the
        way: this may start the flow and send the head of the answer."""
        if not self._is_prepared:
            self._is_prepared = True
            if self._flows is not None:
                self._flows.open_text()
        self.count()  # a limit counts every token before
        tokens_left = self._response.choices[0].plain_tokens_left
        if tokens_left and self._open():
            assert self._text is not None
            self._reply = reply
            reply.arm(self._text, parser, tokens_left, self._flow)

    def _open(self) -> bool:
        """Finds the ends of the path; False if text may not take it."""
        flows, offer = self._flows, self._offer
        if offer is None:
            return False
        self._flow = None if flows is None else flows.direct_flow
        if flows is not None and self._flow is None:
            return False
        text = offer()
        if text is not None:
            self._text = text
        return text is not None

    def pieces(self, step: Step | None) -> Sequence[Piece]:
        """What the step leaves to the ordinary path, through the flows."""
        if step is None:
            self.is_due, self._is_open = True, False
            return self.absorb()
        if self._is_open or self._reply is not None:
            self.count()  # a limit counts every token before the step
        if not step.choices and self._reply is not None:
            self.is_due = True  # the path was left because the client must be waited for
        pieces = self._response.pieces(step)
        if len(pieces) == 1 and isinstance(piece := pieces[0], str):
            rest = self._put(piece)
            if rest is not None:
                return rest
        self.flush()
        early = self.absorb()
        if self._flows is not None:
            pieces = self._flows.feed(pieces)
        return [*early, *pieces] if early else pieces

    def _put(self, text: str) -> Sequence[Piece] | None:
        """Puts a text that was counted; None: it must take the ordinary path. What is returned
        takes the ordinary path from here."""
        if not self._is_open:
            if self._reply is not None or not self._open():
                return None
            self._is_open = True
        assert self._text is not None
        fared = self._text.put(text, self._flow)
        self.is_due = fared == _DUE
        if fared in (_KEPT, _DUE):
            self._read_on()
            return ()
        self._is_open = False
        return self.absorb() if fared == _FOR_PYTHON else None

    def _read_on(self) -> None:
        """More text like this need not come out of the steps."""
        self.count()
        tokens_left = self._response.choices[0].plain_tokens_left
        if tokens_left and self._steps is not None and self._text is not None:
            self._steps.open(self._text, self._flow, tokens_left)

    def takes_due(self) -> bool:
        """Whether it is time to flush; False when it is asked again."""
        is_due, self.is_due = self.is_due, False
        if is_due:
            self.count()
        return is_due

    @property
    def is_turn_over(self) -> bool:
        """Whether the steps were left because the engine has not waited for a while."""
        return self._steps is not None and self._steps.is_turn_over

    def begin_turn(self) -> None:
        if self._steps is not None:
            self._steps.begin_turn()

    def shut(self) -> None:
        """Every step comes out from now on. From any thread."""
        if self._steps is not None:
            self._steps.shut()

    def flush(self) -> None:
        """Before a step that takes the ordinary path."""
        if self._is_open:
            assert self._text is not None
            self._is_open = False
            self._text.flush()

    def disarm(self) -> None:
        """What arrives next takes the ordinary path."""
        if self._reply is not None:
            self._reply.disarm()
        self.shut()
        self.flush()
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
        self._offer = self._reply = self._steps = None
