"""An answer through a flow: each choice's deltas go through guards and aggregators of its own.

One flow a choice and kind of delta, so that choices never mix, nor reasoning with text. A flow is
fed here and drives itself: no thread, no queue. A guard that blocks ends its choice as
`content_filter`, and when no choice is left the engine hears of it at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from torvyn.contract import Element, End, Output
from torvyn.engine.delta import Delta
from torvyn.engine.running import Run
from torvyn.errors import FlowError
from torvyn.protocol.frames import FinishReason, Kind, Usage

if TYPE_CHECKING:
    from torvyn.reactor import Flow

MakeFlow = Callable[[], "Flow"]
"""Makes a flow that is fed and iterated: without a source, without a sink."""


class Lane:
    """One flow, fed with the deltas of one choice and kind."""

    def __init__(self, index: int, kind: Kind, flow: Flow, ring: Callable[[], None]) -> None:
        self.index = index
        self.kind = kind
        self.flow = flow
        self._ring = ring
        self._waiting: deque[Any] = deque()
        self._end: End | None = None
        self._is_finished = False
        self._is_plain = True
        """So far no token came with more than its text."""
        self._attributes: dict[str, Any] = {"choice": index, "kind": kind}
        self.is_away = any(node.run != "inline" for node in flow.plan.nodes)
        """A stage works elsewhere: more may come at any time."""

    @property
    def is_over(self) -> bool:
        return self.flow.end is not None or self.flow.error is not None

    def put(self, delta: Delta) -> list[Delta]:
        if self.is_away or self._waiting or self.is_over:
            self._waiting.append(self._item(delta))
            return self.go_on()
        # An inline flow takes what it is given at once: most tokens come this way.
        return self._deltas(self.flow.feed([self._item(delta)]))

    def finish(self, reason: FinishReason) -> list[Delta]:
        self._end = End(reason)
        return self.go_on()

    def go_on(self) -> list[Delta]:
        """Feeds what waits as far as it goes; what has become ready."""
        out: list[Element] = []
        if self._is_finished or self.is_over:
            self._waiting.clear()
            return self._deltas(self.flow.ready()) if self._is_finished else []
        try:
            if self._waiting:
                out += self._feed()
            elif self.is_away and self.flow.state != "validated":
                out += self.flow.ready()
            if self._end is not None and not self._waiting and not self.is_over:
                self._is_finished = True
                out += self.flow.finish(self._end)
        finally:
            if self.is_away:
                self.flow.on_ready(self._ring)
        return self._deltas(out)

    def _feed(self) -> list[Element]:
        batch = list(self._waiting)
        try:
            out = self.flow.feed(batch)
        except FlowError as error:
            if error.code != "reactor.feed-full":
                raise
            taken, out = error.taken or 0, list(error.ready)
        else:
            taken = len(batch)
        for _ in range(taken):
            self._waiting.popleft()
        return out

    def _item(self, delta: Delta) -> Output:
        attributes = self._attributes
        if delta.logprobs is not None or delta.token_ids:
            self._is_plain = False
            attributes = {**attributes, "logprobs": delta.logprobs, "token_ids": delta.token_ids}
        return Output(delta.delta_text, attributes=attributes)

    def _deltas(self, elements: list[Element]) -> list[Delta]:
        return [self._delta(element) for element in elements]

    def _delta(self, element: Element) -> Delta:
        if self._is_plain:
            return Delta(self.index, element.text, self.kind)
        held: Mapping[str, Any] = element.attributes
        return Delta(
            self.index,
            element.text,
            self.kind,
            logprobs=held.get("logprobs"),
            token_ids=held.get("token_ids") or (),
        )


class ShapedRun:
    """A `Run` whose deltas have gone through flows."""

    def __init__(self, run: Run, make_flow: MakeFlow) -> None:
        self._run = run
        self._make_flow = make_flow
        self._lanes: dict[tuple[int, Kind], Lane] = {}
        self._rung = asyncio.Event()
        self._finishing: dict[int, FinishReason] = {}
        self._matched: dict[int, str | None] = {}
        self.request = run.request
        self.timing = run.timing
        self._reasons: list[FinishReason | None] = [None] * run.request.n
        self._pending: asyncio.Future[Delta | None] | None = None
        self._is_away = False
        """Some lane has a stage that works elsewhere."""

    @property
    def response(self) -> ShapedRun:
        return self

    @property
    def usage(self) -> Usage:
        return self._run.response.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return tuple(self._reasons)

    @property
    def is_over(self) -> bool:
        return self._run.is_over

    def interrupt(self, reason: FinishReason = "cancelled") -> None:
        self._run.interrupt(reason)

    async def deltas(self, delivered: Callable[[], None]) -> AsyncGenerator[Delta, None]:
        inner = self._run.deltas(_not_yet)
        failure: Exception | None = None
        try:
            async for given in inner:
                for delta in self._take(given):
                    if delta.delta_text or delta.call is not None:
                        delivered()
                    yield delta
                if self._is_away:
                    break
            async for made in self._shaped(inner):
                for delta in made:
                    if delta.delta_text or delta.call is not None:
                        delivered()
                    yield delta
        except Exception as error:
            failure = error
        finally:
            await self._let_go(inner)
            for lane in self._lanes.values():
                lane.flow.cancel()
        for delta in self._last(failure):
            yield delta
        if failure is not None:
            raise failure

    async def _shaped(self, inner: AsyncGenerator[Delta, None]) -> AsyncIterator[list[Delta]]:
        while True:
            delta = await self._next(inner)
            if delta is None:
                break
            yield self._take(delta) if isinstance(delta, Delta) else self._collect()
        while any(reason is None for reason in self._reasons):
            await self._rung.wait()
            self._rung.clear()
            yield self._collect()

    async def _next(self, inner: AsyncGenerator[Delta, None]) -> Delta | bool | None:
        """The engine's next delta, None at its end, True when a flow has something instead."""
        if not self._is_away:
            return await anext(inner, None)
        pending = self._pending or asyncio.ensure_future(_step(inner))
        rung = asyncio.ensure_future(self._rung.wait())
        try:
            both: set[asyncio.Future[Any]] = {pending, rung}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rung.cancel()
        if pending.done():
            self._pending = None
            return pending.result()
        self._pending = pending
        self._rung.clear()
        return True

    async def _let_go(self, inner: AsyncGenerator[Delta, None]) -> None:
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.wait({self._pending})
        await inner.aclose()

    def _take(self, delta: Delta) -> list[Delta]:
        if delta.usage is not None:
            return []
        index = delta.index
        if self._reasons[index] is not None or index in self._finishing:
            return []
        out: list[Delta] = []
        if delta.call is not None:
            # Arguments are JSON, which a cut in the middle would break.
            out.append(Delta(index, kind="tool_call", call=delta.call, logprobs=delta.logprobs))
        if delta.delta_text:
            lane = self._lane(index, delta.kind)
            made = lane.put(delta)
            if delta.finish_reason is None and not out and not lane.is_over:
                return made
            out += made
        if delta.finish_reason is not None:
            self._finishing[index] = delta.finish_reason
            self._matched[index] = delta.matched_stop
            if delta.finish_reason != "cancelled":
                for lane in self._of(index):
                    out += lane.finish(delta.finish_reason)
        return out + self._settle()

    def _collect(self) -> list[Delta]:
        out: list[Delta] = []
        for lane in self._lanes.values():
            if lane.is_away:
                out += lane.go_on()
        return out + self._settle()

    def _settle(self) -> list[Delta]:
        """The finishes of choices whose flows have ended."""
        out = []
        for index, said in enumerate(self._reasons):
            reason = self._ended(index) if said is None else None
            if reason is not None:
                self._reasons[index] = reason
                matched = self._matched.get(index) if reason == "stop" else None
                out.append(Delta(index, finish_reason=reason, matched_stop=matched))
        is_over = all(reason is not None for reason in self._reasons)
        if out and is_over and len(self._finishing) < self.request.n:
            # The engine would go on for nobody.
            self._run.interrupt()
        return out

    def _ended(self, index: int) -> FinishReason | None:
        lanes = self._of(index)
        for lane in lanes:
            end = lane.flow.end
            if end is not None and end.finish_reason == "content_filter":
                return "content_filter"
        reason = self._finishing.get(index)
        if reason is None or reason == "cancelled":
            return reason
        return reason if all(lane.is_over for lane in lanes) else None

    def _lane(self, index: int, kind: Kind) -> Lane:
        lane = self._lanes.get((index, kind))
        if lane is None:
            lane = Lane(index, kind, self._make_flow(), self._rung.set)
            self._is_away = self._is_away or lane.is_away
            self._lanes[index, kind] = lane
        return lane

    def _of(self, index: int) -> list[Lane]:
        return [lane for (own, _), lane in self._lanes.items() if own == index]

    def _last(self, failure: Exception | None) -> list[Delta]:
        reason: FinishReason = "error" if failure is not None else "stop"
        out = []
        for index, said in enumerate(self._reasons):
            if said is None:
                self._reasons[index] = reason
                out.append(Delta(index, finish_reason=reason))
        return [*out, Delta(usage=self.usage)]


async def _step(inner: AsyncGenerator[Delta, None]) -> Delta | None:
    return await anext(inner, None)


def _not_yet() -> None:
    """What goes into a flow is not delivered."""
