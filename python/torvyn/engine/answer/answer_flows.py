"""An answer through flows: each choice's deltas go through guards and aggregators of its own.

What leaves a choice keeps its order. A flow of guards alone takes all kinds of deltas of a choice,
because guards tell them apart. Any other flow takes one kind, so that reasoning never mixes with
text, and ends where the kind changes; calls of tools go past it. A guard that blocks ends its
choice as `content_filter`. Here is no loop: whoever runs the engine feeds the lanes and hands on
what leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

from torvyn.components import GUARDS
from torvyn.components.text_guard import Guard
from torvyn.contract import End
from torvyn.engine.answer.choice_flow import Lane, is_plain
from torvyn.engine.delta import Delta
from torvyn.engine.request import Request
from torvyn.errors import LinkError
from torvyn.protocol.frames import FinishReason, Kind

if TYPE_CHECKING:
    from torvyn.link.plan import NodePlan
    from torvyn.reactor import Flow

__all__ = ["Lane", "Lanes", "MakeFlow", "is_plain"]

MakeFlow = Callable[[], "Flow"]
"""Makes a flow that is fed and iterated: without a source, without a sink."""
_BLOCKED: FinishReason = "content_filter"


class Lanes:
    """All lanes of one request, and how its choices end."""

    def __init__(self, request: Request, make_flow: MakeFlow) -> None:
        self.reasons: list[FinishReason | None] = [None] * request.n
        self.are_away = False
        """Stages work elsewhere: more may leave at any time, and not all is taken at once."""
        self._request_id = request.id
        self._make_flow = make_flow
        self._takes_all_kinds = False
        """Flows tell kinds apart: one takes all deltas of a choice."""
        # Made at once: a flow that cannot be fed is refused before the engine is asked.
        self._next: Flow | None = self._fit(make_flow())
        self._lanes: dict[tuple[int, Kind], Lane] = {}
        self._runs: dict[int, Lane] = {}
        """The lane of each choice that the last delta went to."""
        self._past: dict[int, list[Lane]] = {}
        """Lanes of earlier runs that still work, or that have ended their choice."""
        self._with_text: set[int] = set()
        """Choices whose text has a flow, or had one."""
        self._endings: dict[int, Delta] = {}
        self._made: list[Delta] = []
        self._only: Lane | None = None
        """The lane of the text, when there is one choice and all is inline."""
        self.is_cut = False
        """Every choice has ended, and not all of them because the engine said so."""

    @property
    def is_over(self) -> bool:
        return None not in self.reasons

    @property
    def is_full(self) -> bool:
        return any(lane.waiting for lane in self._lanes.values())

    def say(self, text: str) -> str | list[Delta]:
        """What leaves when this text of the only choice has gone in."""
        lane = self._only
        if lane is None or lane.is_over or lane.before is not None:
            return self.take((Delta(0, text),))
        said = lane.say(text, self._made)
        if isinstance(said, list):
            said = self._settled() if lane.is_over else said
            self._made = []
        return said

    def take(self, deltas: Sequence[Delta]) -> list[Delta]:
        """What leaves when these have gone in."""
        if not deltas:
            return []
        out = self._made
        lane: Lane | None = None
        for delta in deltas:
            index = delta.index
            if delta.usage is not None or self.reasons[index] or index in self._endings:
                continue
            is_more = delta.finish_reason is not None or delta.call is not None
            if delta.text:
                own = self._enter(index, delta.kind, out)
                if lane is not None and own is not lane:
                    lane.go_on(out)
                lane = own
                lane.add(delta)
            if is_more:
                if lane is not None:
                    lane.go_on(out)
                    lane = None
                self._take_more(delta, out)
        if lane is not None:
            lane.go_on(out)
            if not lane.is_over and not self._endings and lane.before is None:
                self._made = []
                return out
        return self._settled()

    def collect(self) -> list[Delta]:
        """What has become ready elsewhere."""
        for lane in self.all():
            if not lane.is_over:
                lane.go_on(self._made)
        return self._settled()

    def end(self, reason: FinishReason) -> list[Delta]:
        """What a failure kept back, and a finish for every choice that has none."""
        out, self._made = self._made, []
        for index, said in enumerate(self.reasons):
            if said is None:
                self.reasons[index] = reason
                out.append(Delta(index, finish_reason=reason))
        return out

    def close(self) -> None:
        """Ends every flow that still runs. May block where stages work elsewhere."""
        for lane in self.all():
            if not lane.is_over:
                lane.close()

    def lane(self, index: int, kind: Kind) -> Lane:
        kind = "text" if self._takes_all_kinds else kind
        lane = self._lanes.get((index, kind))
        if lane is None:
            flow, self._next = self._next or self._fit(self._make_flow()), None
            lane = self._lanes[index, kind] = Lane(index, kind, flow)
            if kind == "text":
                self._with_text.add(index)
            is_only = kind == "text" and len(self.reasons) == 1 and not self.are_away
            self._only = lane if is_only else self._only
        return lane

    def all(self) -> list[Lane]:
        """Lanes of earlier runs first."""
        past = [lane for lanes in self._past.values() for lane in lanes]
        return [*past, *self._lanes.values()]

    def log_as(self, request_id: str) -> None:
        """Which request its flows work for, before they run."""
        self._request_id = request_id
        if self._next is not None:
            self._next.request_id = request_id

    def missing(self, deltas: Sequence[Delta]) -> list[Lane]:
        """The lanes that these, of one run per choice, will need and that are not there yet."""
        known = set(self._lanes)
        wanted = {(d.index, d.kind) for d in deltas if d.text}
        ends = {d.index for d in deltas if d.finish_reason not in (None, "cancelled")}
        wanted |= {(index, "text") for index in ends - self._with_text}
        if self._takes_all_kinds:
            wanted = {(index, "text") for index, _ in wanted}
        return [self.lane(*key) for key in sorted(wanted - known)]

    def runs(self, deltas: Sequence[Delta]) -> Iterator[list[Delta]]:
        """The deltas, cut where the kind changes in a choice and a lane may end."""
        run: list[Delta] = []
        kinds: dict[int, str] = {}
        for delta in deltas:
            kind = "tool_call" if delta.call is not None else delta.kind
            if run and kinds.get(delta.index, kind) != kind and not self._takes_all_kinds:
                yield run
                run, kinds = [], {}
            run.append(delta)
            kinds[delta.index] = kind
        if run:
            yield run

    def _enter(self, index: int, kind: Kind, out: list[Delta]) -> Lane:
        """The lane of a delta. If its choice was in another one, that ends first."""
        if self._takes_all_kinds:
            return self.lane(index, kind)
        run = self._runs.get(index)
        if run is not None and run.kind == kind:
            return run
        self._end_run(index, out)
        lane = self._runs[index] = self.lane(index, kind)
        past = self._past.get(index)
        lane.before = past[-1] if past else None
        return lane

    def _end_run(self, index: int, out: list[Delta]) -> None:
        lane = self._runs.pop(index, None)
        if lane is None:
            return
        lane.finish(End("stop"))
        lane.go_on(out)
        del self._lanes[index, lane.kind]
        self._only = None if self._only is lane else self._only
        past = [old for old in self._past.get(index, ()) if not old.is_over or old.is_blocked]
        self._past[index] = [*past, lane]

    def _take_more(self, delta: Delta, out: list[Delta]) -> None:
        index, reason = delta.index, delta.finish_reason
        if delta.call is not None:
            self._take_call(delta, out)
        if reason is None:
            return
        self._endings[index] = delta
        if reason != "cancelled":
            if index not in self._with_text:
                self._enter(index, "text", out)  # a flow may add text to an answer without any
            for lane in self._of(index):
                lane.finish(End(reason, matched_stop=delta.matched_stop))
                lane.go_on(out)

    def _take_call(self, delta: Delta, out: list[Delta]) -> None:
        if self._takes_all_kinds:
            lane = self.lane(delta.index, "tool_call")
            lane.add_call(delta)
            lane.go_on(out)
            return
        self._end_run(delta.index, out)
        past = self._past.get(delta.index)
        call = Delta(delta.index, "", "tool_call", delta.call, delta.logprobs)
        if past and not past[-1].is_over:
            past[-1].after.append(call)
        else:
            out.append(call)

    def _settled(self) -> list[Delta]:
        """What was made, and the finishes of choices whose flows have ended."""
        out, self._made = self._made, []
        for index, said in enumerate(self.reasons):
            reason = self._ended(index) if said is None else None
            if reason is not None:
                self.reasons[index] = reason
                finish = Delta(index, finish_reason=reason)
                ending = self._endings.get(index)
                if ending is not None and ending.finish_reason == reason:
                    finish.native_reason = ending.native_reason
                    finish.matched_stop = ending.matched_stop if reason == "stop" else None
                out.append(finish)
        self.is_cut = self.is_over and len(self._endings) < len(self.reasons)
        return out

    def _ended(self, index: int) -> FinishReason | None:
        lanes = self._of(index)
        if any(lane.is_over and lane.is_blocked for lane in lanes):
            return _BLOCKED
        if index in self._endings:
            reason = self._endings[index].finish_reason
            done = reason == "cancelled" or all(lane.is_over for lane in lanes)
            return reason if done else None
        text = self._lanes.get((index, "text"))
        # A flow may end by itself: nothing of the rest would come out of it.
        return _reason(text.flow.end) if text is not None and text.is_over else None

    def _of(self, index: int) -> list[Lane]:
        lanes = [lane for (own, _), lane in self._lanes.items() if own == index]
        return [*self._past.get(index, ()), *lanes]

    def _fit(self, flow: Flow) -> Flow:
        plan = flow.plan
        if plan.head is None or plan.tail is None:
            raise LinkError(
                "engine.flow-unfit",
                f"no answer goes through flow `{plan.name}`: it has a source or a sink of its own",
                hint="leave them out: the engine is the source, and whoever asks the sink",
            )
        flow.request_id = self._request_id
        self.are_away = self.are_away or any(node.run != "inline" for node in plan.nodes)
        self._takes_all_kinds = all(_is_guard(node) for node in plan.nodes)
        return flow


def _reason(end: End | None) -> FinishReason:
    said: Any = end.finish_reason if end is not None else "stop"
    return said if said in get_args(FinishReason) else "stop"


def _is_guard(node: NodePlan) -> bool:
    component = node.component
    if component.kind == "object":
        return isinstance(component.instance, Guard)
    return component.kind == "builtin" and component.name in GUARDS
