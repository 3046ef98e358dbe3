"""Exchanges segments of a running flow for new ones, on the carrier self._thread.

The segments that change are brought to rest and saved, those before a durable edge that is gone
first, so that it can be drained. The others go on all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from torvyn.durable import StoreUnavailable
from torvyn.errors import FlowError
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.exchange.rewired_plan import Rewiring
from torvyn.reactor.swap.refusals import graph_busy, not_running

if TYPE_CHECKING:
    from torvyn.reactor.carriers.committer import Cut
    from torvyn.reactor.carriers.exchange.exchanging_carrier import ExchangingCarrier

States = dict[str, bytes]


class SegmentExchange:
    def __init__(
        self,
        thread: ExchangingCarrier,
        flow: str,
        rewiring: Rewiring,
        gone: Sequence[DiskEdge],
        timeout_s: float,
        put_in_place: Callable[[States], None],
    ) -> None:
        self._thread = thread
        self._flow = flow
        self._rewiring = rewiring
        self._gone = gone
        self._timeout_s = timeout_s
        self._until_s = time.monotonic() + timeout_s
        self._put_in_place = put_in_place
        self._held: dict[int, Cut] = {}
        self._held_since_s: dict[int, float] = {}
        self.result: Future[dict[str, float]] = Future()
        """By the names of the segments that came to rest: for how long they did, in ms."""

    def keep(self, cut: Cut) -> bool:
        """Whether a segment that is saved stays at rest."""
        if cut.segment not in self._held_since_s:
            return False
        self._held[cut.segment] = cut
        return True

    def advance(self) -> None:
        """Does what can be done now."""
        try:
            self._advance()
        except (FlowError, StoreUnavailable) as error:
            self.give_up(error)
        except BaseException as error:
            self.give_up(error)
            raise

    def _advance(self) -> None:
        if self._thread.is_ending or self._thread.native.is_over:
            raise not_running(self._flow)
        for segment in self._rewiring.old_segments - self._held_since_s.keys():
            if self._may_rest(segment) and self._thread.hold(segment):
                self._held_since_s[segment] = time.monotonic()
        if self._held.keys() == self._rewiring.old_segments:
            self._exchange()
        elif time.monotonic() > self._until_s:
            raise graph_busy(self._flow, self._obstacle(), self._timeout_s)

    def _may_rest(self, segment: int) -> bool:
        """A segment that reads an edge which is gone reads it to its end first."""
        read = [edge for edge in self._gone if edge.reader_segment == segment]
        others = [edge for edge in read if edge.writer_segment != segment]
        return all(edge.writer_segment in self._held and edge.is_drained for edge in others)

    def _obstacle(self) -> str:
        for edge in self._gone:
            if not edge.is_drained:
                return _waits(edge)
        names = self._rewiring.old.segments
        moving = [names[at] for at in self._rewiring.old_segments - self._held.keys()]
        return f"the segment of `{moving[0]}` did not come to rest"

    def _exchange(self) -> None:
        for edge in self._gone:
            if not edge.is_drained:
                raise graph_busy(self._flow, _waits(edge), self._timeout_s)
        cuts = self._held.values()
        self._put_in_place({k: v for cut in cuts for k, v in (cut.states or {}).items()})
        self._thread.exchange = None
        for segment in self._rewiring.new_segments | self._rewiring.old_segments:
            self._thread.release(segment)
        now_s, names = time.monotonic(), self._rewiring.old.segments
        since_s = self._held_since_s.items()
        self.result.set_result({names[at]: (now_s - began_s) * 1e3 for at, began_s in since_s})

    def give_up(self, error: BaseException) -> None:
        """The old segments go on. Those whose cut is not durable yet are released with it."""
        self._thread.exchange = None
        if not self._thread.is_ending:
            for segment in self._held:
                self._thread.release(segment)
        self.result.set_exception(error)


def _waits(edge: DiskEdge) -> str:
    return f"elements wait on the edge `{edge.name}`, which is gone"
