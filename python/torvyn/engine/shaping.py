"""An answer through flows: each choice's deltas go through guards and aggregators of its own.

One flow a choice and kind of delta, so that choices never mix, nor reasoning with text. Calls of
tools go past them: a cut in their JSON would break it. A guard that blocks ends its choice as
`content_filter`. Here is no loop: whoever runs the engine feeds the lanes and hands on what leaves.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from torvyn.contract import Element, End, Output
from torvyn.engine.delta import Delta
from torvyn.engine.request import Request
from torvyn.errors import FlowError, LinkError, TorvynError
from torvyn.protocol.frames import FinishReason, Kind

if TYPE_CHECKING:
    from torvyn.reactor import Flow

MakeFlow = Callable[[], "Flow"]
"""Makes a flow that is fed and iterated: without a source, without a sink."""
_BLOCKED: FinishReason = "content_filter"


class Lane:
    """One flow, fed with the deltas of one choice and kind."""

    def __init__(self, index: int, kind: Kind, flow: Flow) -> None:
        self.index = index
        self.kind = kind
        self.flow = flow
        self.waiting: deque[Any] = deque()
        self.is_over = False
        self._end: End | None = None
        self._is_finished = False
        self._attributes: dict[str, Any] = {"choice": index, "kind": kind}
        self._is_plain = index == 0 and kind == "text"

    def add(self, delta: Delta) -> None:
        """It goes in with the next `go_on`."""
        if self._is_plain and is_plain(delta):
            # What says nothing of itself is text of the first choice: most of what there is.
            self.waiting.append(delta.delta_text)
            return
        attributes = self._attributes
        if delta.logprobs is not None or delta.token_ids:
            attributes = {**attributes, "logprobs": delta.logprobs, "token_ids": delta.token_ids}
        self.waiting.append(Output(delta.delta_text, attributes=attributes))

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
                delta = Delta(self.index, text, self.kind, None, held.get("logprobs"), ids)
                out.append(delta)


class Lanes:
    """All lanes of one request, and how its choices end."""

    def __init__(self, request: Request, make_flow: MakeFlow) -> None:
        self.reasons: list[FinishReason | None] = [None] * request.n
        self.are_away = False
        """Stages work elsewhere: more may leave at any time, and not all is taken at once."""
        self._request_id = request.id
        self._make_flow = make_flow
        # Made at once: a flow that cannot be fed is refused before the engine is asked.
        self._next: Flow | None = self._fit(make_flow())
        self._lanes: dict[tuple[int, Kind], Lane] = {}
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
        if lane is None or lane.is_over:
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
            if delta.delta_text:
                own = self.lane(index, delta.kind)
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
            if not lane.is_over and not self._endings:
                self._made = []
                return out
        return self._settled()

    def collect(self) -> list[Delta]:
        """What has become ready elsewhere."""
        for lane in self._lanes.values():
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
        for lane in self._lanes.values():
            if not lane.is_over:
                lane.close()

    def lane(self, index: int, kind: Kind) -> Lane:
        lane = self._lanes.get((index, kind))
        if lane is None:
            flow, self._next = self._next or self._fit(self._make_flow()), None
            lane = self._lanes[index, kind] = Lane(index, kind, flow)
            is_only = kind == "text" and len(self.reasons) == 1 and not self.are_away
            self._only = lane if is_only else self._only
        return lane

    def all(self) -> Iterable[Lane]:
        return self._lanes.values()

    def log_as(self, request_id: str) -> None:
        """Which request its flows work for, before they run."""
        self._request_id = request_id
        if self._next is not None:
            self._next.request_id = request_id

    def missing(self, deltas: Sequence[Delta]) -> list[Lane]:
        """The lanes that these will need and that are not there yet."""
        known = set(self._lanes)
        wanted = {(d.index, d.kind) for d in deltas if d.delta_text}
        wanted |= {(d.index, "text") for d in deltas if d.finish_reason not in (None, "cancelled")}
        return [self.lane(*key) for key in sorted(wanted - known)]

    def _take_more(self, delta: Delta, out: list[Delta]) -> None:
        index, reason = delta.index, delta.finish_reason
        if delta.call is not None:
            out.append(Delta(index, "", "tool_call", delta.call, delta.logprobs))
        if reason is None:
            return
        self._endings[index] = delta
        if reason != "cancelled":
            self.lane(index, "text")  # also for an answer without text: a flow may add some
            for lane in self._of(index):
                lane.finish(End(reason, matched_stop=delta.matched_stop))
                lane.go_on(out)

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
        ends = [lane.flow.end for lane in lanes if lane.is_over]
        if any(end is not None and end.finish_reason == _BLOCKED for end in ends):
            return _BLOCKED
        if index in self._endings:
            reason = self._endings[index].finish_reason
            done = reason == "cancelled" or all(lane.is_over for lane in lanes)
            return reason if done else None
        text = self._lanes.get((index, "text"))
        # A flow may end by itself: nothing of the rest would come out of it.
        return _reason(text.flow.end) if text is not None and text.is_over else None

    def _of(self, index: int) -> list[Lane]:
        return [lane for (own, _), lane in self._lanes.items() if own == index]

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
        return flow


def is_plain(delta: Delta) -> bool:
    """Text and nothing else."""
    return (
        delta.kind == "text"
        and delta.finish_reason is None
        and not delta.token_ids
        and delta.logprobs is None
        and delta.delta_text != ""
    )


def _reason(end: End | None) -> FinishReason:
    said: Any = end.finish_reason if end is not None else "stop"
    return said if said in get_args(FinishReason) else "stop"
