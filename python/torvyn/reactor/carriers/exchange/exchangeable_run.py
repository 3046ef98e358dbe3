"""A durable run whose graph can change while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from torvyn.durable import DurableStore
from torvyn.reactor.carriers.checkpoints import Checkpoints
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.durable_run import DurableRun
from torvyn.reactor.carriers.exchange.exchanging_carrier import ExchangingCarrier
from torvyn.reactor.carriers.exchange.graph_installation import GraphInstallation
from torvyn.reactor.carriers.exchange.rewired_plan import Rewiring
from torvyn.reactor.carriers.exchange.segment_exchange import SegmentExchange
from torvyn.reactor.swap.refusals import not_running


class ExchangeableRun(DurableRun):
    """All of its durable edges are on the disk."""

    _thread: ExchangingCarrier | None
    _carrier = ExchangingCarrier

    def exchange(
        self, rewiring: Rewiring, timeout_s: float, installation: GraphInstallation
    ) -> SegmentExchange:
        """Has the carrier thread exchange segments of the running flow."""
        thread, store = self._thread, self._store
        if thread is None or store is None:
            raise not_running(self.plan.name)
        new, checkpoints = rewiring.new, installation.checkpoints
        self._check_aggregators(installation.all_runners, checkpoints)
        kept = {edge.log: edge for edge in new.edges}
        added = self._open_edges(rewiring, checkpoints, store)
        gone = [edge for edge in self._edges if edge.name not in kept]
        left = [edge for edge in self._edges if edge.name in kept]
        installation.connect({edge.name: edge for edge in (*left, *added)})

        def adopt() -> None:
            self._adopt(rewiring, checkpoints, [*left, *added], gone)

        before = self._checkpoints

        def put_in_place(states: Mapping[str, bytes]) -> None:
            # Whatever comes of it, the segments are stored anew, as a whole.
            for segment in rewiring.old_segments:
                before.logs[segment].forget()
            installation.put_in_place(store, states, adopt)

        made = SegmentExchange(thread, self.plan.name, rewiring, gone, timeout_s, put_in_place)
        thread.request_exchange(made)
        return made

    def _open_edges(
        self, rewiring: Rewiring, checkpoints: Checkpoints, store: DurableStore
    ) -> list[DiskEdge]:
        """The edges that join, with empty logs."""
        thread, by_checkpoint = self._thread, checkpoints.by_checkpoint
        assert thread is not None
        segment = rewiring.new.segment
        edges = [
            DiskEdge(edge, segment(edge.writer), segment(edge.reader))
            for edge in rewiring.added_edges
        ]
        store.add_logs({edge.name: edge.options for edge in edges})
        for edge in edges:
            edge.open(store, self._bell, pauses=not by_checkpoint[segment(edge.wired.writer)])
            thread.start_clock(edge)
            for old in self._gone_edges:
                if old.name == edge.name:
                    edge.stored_before, edge.lost_before = old.stored_before, old.lost_before
        return edges

    def _adopt(
        self,
        rewiring: Rewiring,
        checkpoints: Checkpoints,
        edges: list[DiskEdge],
        gone: list[DiskEdge],
    ) -> None:
        """The native core has another graph. Called inside the turn: the next cut finds it."""
        thread, new = self._thread, rewiring.new
        assert thread is not None
        by_checkpoint = checkpoints.by_checkpoint
        names = {edge.name for edge in edges}
        self._gone_edges = [each for each in (*self._gone_edges, *gone) if each.name not in names]
        for edge in edges:
            ends = edge.wired
            edge.writer_segment, edge.reader_segment = map(new.segment, (ends.writer, ends.reader))
            edge.log.set_pauses(not by_checkpoint[new.segment(ends.writer)])
        self._edges[:] = edges
        for segment, log in enumerate(self._checkpoints.logs):
            if segment not in rewiring.new_segments:
                checkpoints.logs[segment] = log
        self.wired, self._checkpoints = new, checkpoints
        thread.adopt(new, checkpoints)
