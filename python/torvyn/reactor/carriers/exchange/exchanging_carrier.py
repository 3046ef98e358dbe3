"""What an exchange of segments asks of the carrier thread."""

from __future__ import annotations

import math

from torvyn._native import NativeFlow
from torvyn.reactor.carriers.carrier_end import EndingCarrier
from torvyn.reactor.carriers.checkpoints import Checkpoints
from torvyn.reactor.carriers.committer import Committer
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.exchange.segment_exchange import SegmentExchange
from torvyn.reactor.carriers.wired_plan import WiredPlan
from torvyn.reactor.swap.refusals import not_running


class ExchangingCarrier(EndingCarrier):
    """A carrier thread whose flow may get another graph."""

    @property
    def native(self) -> NativeFlow:
        return self._native

    def request_exchange(self, exchange: SegmentExchange) -> None:
        self.exchange = exchange
        self._bell.ring()

    def start_clock(self, edge: DiskEdge) -> None:
        """For an edge that joins the flow."""
        assert isinstance(self._committer, Committer)
        self._committer.start_clock(edge)

    @property
    def is_ending(self) -> bool:
        return self._wants_final or self._stopping.is_set()

    def hold(self, segment: int) -> bool:
        """Has a segment cut for an exchange; False if a cut of it is under way."""
        if segment in self._requested:
            return False
        self._requested.add(segment)
        self._native.request_cut(segment)
        return True

    def adopt(self, wired: WiredPlan, checkpoints: Checkpoints) -> None:
        """The flow has this graph now, and `_edges` has the edges of it."""
        self._wired, self._checkpoints = wired, checkpoints
        self._find_plain()
        for edge in self._edges:
            edge.attach(self._native, wired)
        for segment in range(len(wired.segments)):
            self._last_cut_s.setdefault(segment, -math.inf)

    def stop(self) -> None:
        super().stop()
        if self.exchange is not None:
            self.exchange.give_up(not_running(self._wired.plan.name))
