"""An answer through flows: the pieces of each choice go through guards and aggregators of its own.

The order within a choice is kept. A flow of guards alone takes all kinds of deltas of a choice. Any
other flow takes one kind and ends where the kind changes, so that reasoning never mixes with text;
tool calls bypass it. A guard that blocks ends its choice as `content_filter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torvyn._contract.signals import End
from torvyn.engine.answer.answer import FlowAccount
from torvyn.engine.answer.choice_flow import ChoiceFlow
from torvyn.engine.answer.flow_fit import is_guard, must_fit, reason_of
from torvyn.engine.delta import Delta, Piece
from torvyn.engine.request import Request
from torvyn.protocol.frames import FinishReason, Kind

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._native import NativeFlow

MakeFlow = Callable[[], "Flow"]
"""Makes a flow without a source and without a sink."""
_BLOCKED: FinishReason = "content_filter"


class AnswerFlows:
    """All flows of one answer, and how its choices end."""

    def __init__(self, request: Request, make_flow: MakeFlow) -> None:
        self.finish_reasons: list[FinishReason | None] = [None] * request.n
        self.are_offloaded = False
        """Stages run on other threads or as coroutines: output may arrive at any time."""
        self._request_id = request.id
        self._make_flow = make_flow
        self._takes_all_kinds = False
        """Flows tell kinds apart: one flow takes all deltas of a choice."""
        # Made at once: a flow that cannot be fed is rejected before the engine is called.
        self._next: Flow | None = self._prepare(make_flow())
        self._flows: dict[tuple[int, Kind], ChoiceFlow] = {}
        self._current: dict[int, ChoiceFlow] = {}
        """The flow of each choice that took its last delta."""
        self._past: dict[int, list[ChoiceFlow]] = {}
        """Flows of earlier kinds that still work, or that have ended their choice."""
        self._with_text: set[int] = set()
        """Choices whose text has a flow, or had one."""
        self._endings: dict[int, Delta] = {}
        self._output: list[Piece] = []
        self._only: ChoiceFlow | None = None
        """The flow of the text, when there is one choice and all stages are inline."""
        self.is_cut = False
        """Every choice has ended, and not all of them because the engine ended them."""

    @property
    def is_over(self) -> bool:
        return None not in self.finish_reasons

    @property
    def is_full(self) -> bool:
        return any(flow.waiting for flow in self._flows.values())

    def feed(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Feeds the pieces; returns what leaves the flows."""
        if not pieces:
            return ()
        only, piece = self._only, pieces[0]
        if isinstance(piece, str) and len(pieces) == 1 and only is not None and only.is_direct:
            return self._feed_text(only, piece)
        out = self._output
        flow: ChoiceFlow | None = None
        for piece in pieces:
            index, kind, has_text = _place(piece)
            if self.finish_reasons[index] or index in self._endings:
                continue
            if has_text:
                own = self._enter(index, kind, out)
                if flow is not None and own is not flow:
                    flow.advance(out)
                flow = own
                flow.add(piece)
            if not isinstance(piece, str) and (piece.finish_reason or piece.call is not None):
                if flow is not None:
                    flow.advance(out)
                    flow = None
                self._add_rest(piece, out)
        if flow is not None:
            flow.advance(out)
            if not flow.is_over and not self._endings and flow.before is None:
                self._output = []
                return out
        return self._settle()

    def _feed_text(self, flow: ChoiceFlow, text: str) -> Sequence[Piece]:
        """The common case, without a queue and mostly without a list."""
        pieces = flow.feed_text(text, self._output)
        if pieces is self._output:
            if flow.is_over:
                return self._settle()
            self._output = []
        return pieces

    @property
    def direct_flow(self) -> NativeFlow | None:
        """The flow that plain text may be fed to without a step here; None if it may not."""
        flow = self._only
        if flow is None or not flow.is_direct or flow.waiting:
            return None
        return flow.flow._native_feed if self._takes_all_kinds and not self._endings else None

    def open_text(self) -> None:
        """Starts the flow of the text before there is any, if it takes all that comes and its
        stages are inline."""
        if self._takes_all_kinds and not self.are_offloaded and len(self.finish_reasons) == 1:
            self._flow(0, "text").open()

    def absorb(self, outputs: list[Any]) -> Sequence[Piece]:
        """What leaves the direct flow, when that is not only text."""
        flow, out = self._only, self._output
        if flow is None:
            return ()
        flow.absorb(outputs, out)
        if flow.is_over:
            return self._settle()
        self._output = []
        return out

    def collect(self) -> list[Piece]:
        """What offloaded flows have ready."""
        for flow in (flow for flow in self.all() if not flow.is_over):
            flow.advance(self._output)
        return self._settle()

    def end(self, reason: FinishReason) -> list[Piece]:
        """What a failure kept back, and a finish for every choice that has none."""
        out, self._output = self._output, []
        for index, known in enumerate(self.finish_reasons):
            if known is None:
                self.finish_reasons[index] = reason
                out.append(Delta(index, finish_reason=reason))
        return out

    def close(self) -> None:
        """Ends every flow that still runs. Blocks if stages are offloaded."""
        for flow in self.all():
            if not flow.is_over:
                flow.close()

    def all(self) -> list[ChoiceFlow]:
        """Flows of earlier kinds first."""
        return [*(flow for flows in self._past.values() for flow in flows), *self._flows.values()]

    @property
    def accounts(self) -> list[FlowAccount]:
        flows = self.all()
        return [FlowAccount("completion", f.index, f.kind, f.flow.statistics) for f in flows]

    def make_missing(self, pieces: Sequence[Piece]) -> list[ChoiceFlow]:
        """Makes the flows that these pieces, of one kind per choice, need and that do not exist."""
        existing = set(self._flows)
        needed: set[tuple[int, Kind]] = set()
        for piece in pieces:
            index, kind, has_text = _place(piece)
            if has_text:
                needed.add((index, kind))
            is_end = not isinstance(piece, str) and piece.finish_reason not in (None, "cancelled")
            if is_end and index not in self._with_text:
                needed.add((index, "text"))
        if self._takes_all_kinds:
            needed = {(index, "text") for index, _ in needed}
        return [self._flow(*key) for key in sorted(needed - existing)]

    def segments(self, pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
        """The pieces, split where the kind changes within a choice and a flow may end."""
        segment: list[Piece] = []
        kinds: dict[int, str] = {}
        for piece in pieces:
            index, kind, _ = _place(piece)
            if segment and kinds.get(index, kind) != kind and not self._takes_all_kinds:
                yield segment
                segment, kinds = [], {}
            segment.append(piece)
            kinds[index] = kind
        if segment:
            yield segment

    def _flow(self, index: int, kind: Kind) -> ChoiceFlow:
        kind = "text" if self._takes_all_kinds else kind
        flow = self._flows.get((index, kind))
        if flow is None:
            new, self._next = self._next or self._prepare(self._make_flow()), None
            flow = self._flows[index, kind] = ChoiceFlow(index, kind, new)
            if kind == "text":
                self._with_text.add(index)
                if len(self.finish_reasons) == 1 and not self.are_offloaded:
                    self._only = flow
        return flow

    def _enter(self, index: int, kind: Kind, out: list[Piece]) -> ChoiceFlow:
        """The flow for a delta. The flow of another kind in the same choice ends first."""
        if self._takes_all_kinds:
            return self._flow(index, kind)
        current = self._current.get(index)
        if current is not None and current.kind == kind:
            return current
        self._end_current(index, out)
        flow = self._current[index] = self._flow(index, kind)
        past = self._past.get(index)
        flow.before = past[-1] if past else None
        return flow

    def _end_current(self, index: int, out: list[Piece]) -> None:
        flow = self._current.pop(index, None)
        if flow is None:
            return
        flow.finish(End("stop"))
        flow.advance(out)
        del self._flows[index, flow.kind]
        self._only = None if self._only is flow else self._only
        past = [old for old in self._past.get(index, ()) if not old.is_over or old.is_blocked]
        self._past[index] = [*past, flow]

    def _add_rest(self, delta: Delta, out: list[Piece]) -> None:
        """The rest of a delta: a tool call, a finish."""
        index, reason = delta.index, delta.finish_reason
        if delta.call is not None:
            self._add_call(delta, out)
        if reason is None:
            return
        self._endings[index] = delta
        if reason != "cancelled":
            if index not in self._with_text:
                self._enter(index, "text", out)  # a flow may add text to an answer without any
            for flow in self._of(index):
                flow.finish(End(reason, matched_stop=delta.matched_stop))
                flow.advance(out)

    def _add_call(self, delta: Delta, out: list[Piece]) -> None:
        if self._takes_all_kinds:
            flow = self._flow(delta.index, "tool_call")
            flow.add_call(delta)
            flow.advance(out)
            return
        self._end_current(delta.index, out)
        past = self._past.get(delta.index)
        call = Delta(delta.index, "", "tool_call", delta.call, delta.logprobs)
        if past and not past[-1].is_over:
            past[-1].after.append(call)
        else:
            out.append(call)

    def _settle(self) -> list[Piece]:
        """The output so far, and a finish for each choice whose flows have ended."""
        out, self._output = self._output, []
        for index, known in enumerate(self.finish_reasons):
            reason = self._end_of(index) if known is None else None
            if reason is not None:
                self.finish_reasons[index] = reason
                finish = Delta(index, finish_reason=reason)
                ending = self._endings.get(index)
                if ending is not None and ending.finish_reason == reason:
                    finish.native_reason = ending.native_reason
                    finish.matched_stop = ending.matched_stop if reason == "stop" else None
                out.append(finish)
        self.is_cut = self.is_over and len(self._endings) < len(self.finish_reasons)
        return out

    def _end_of(self, index: int) -> FinishReason | None:
        flows = self._of(index)
        if any(flow.is_over and flow.is_blocked for flow in flows):
            return _BLOCKED
        if index in self._endings:
            reason = self._endings[index].finish_reason
            is_done = reason == "cancelled" or all(flow.is_over for flow in flows)
            return reason if is_done else None
        text = self._flows.get((index, "text"))
        # A flow may end by itself; nothing more would leave it.
        return reason_of(text.flow.end) if text is not None and text.is_over else None

    def _of(self, index: int) -> list[ChoiceFlow]:
        past = self._past.get(index, ())
        return [*past, *(flow for (own, _), flow in self._flows.items() if own == index)]

    def _prepare(self, flow: Flow) -> Flow:
        plan = flow.plan
        must_fit(plan)
        flow.request_id = self._request_id
        self.are_offloaded = self.are_offloaded or any(node.run != "inline" for node in plan.nodes)
        self._takes_all_kinds = all(is_guard(node) for node in plan.nodes)
        return flow


def _place(piece: Piece) -> tuple[int, Kind, bool]:
    """Its choice, its kind, and whether it has text."""
    if isinstance(piece, str):
        return 0, "text", True
    kind: Kind = "tool_call" if piece.call is not None else piece.kind
    return piece.index, kind, piece.text != ""
