"""One run of a flow that survives its process: its store, its carrier thread, its checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from torvyn._native import Bell, NativeFlow
from torvyn.contract import Context
from torvyn.contract.enums import Role
from torvyn.durable import DurableStore, LogStatistics
from torvyn.link.plan import Plan
from torvyn.reactor.carriers.carrier_thread import CarrierThread
from torvyn.reactor.carriers.checkpoints import Checkpoints, needs_checkpoints, shape_changed
from torvyn.reactor.carriers.committer import Committer
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.wired_plan import WiredPlan, wire
from torvyn.reactor.run.aggregator_checks import check_aggregators
from torvyn.reactor.swap.refusals import unfit

if TYPE_CHECKING:
    from torvyn.reactor.runners import Runner


def state_path(plan: Plan) -> Path:
    """The database of a flow. Its folder is the flow's own."""
    return Path(plan.state_dir, quote(plan.name, safe=""), "flow.db")


class DurableRun:
    """Made before the components, opened before they are initialized, closed after the last turn
    and before they are torn down."""

    def __init__(self, plan: Plan, is_fresh: bool) -> None:
        self.wired: WiredPlan = wire(plan)
        self._is_fresh = is_fresh
        segment = self.wired.segment
        self._edges = [
            DiskEdge(edge, segment(edge.writer), segment(edge.reader)) for edge in self.wired.edges
        ]
        self._bell = Bell()
        self._store: DurableStore | None = None
        self._thread: CarrierThread | None = None
        self._statistics: dict[str, LogStatistics] = {}
        self._is_started = False
        self.restored = 0

    @property
    def plan(self) -> Plan:
        return self.wired.plan

    def contexts(self, context: Context) -> list[Context]:
        """The context of each node. Where a log has numbered the elements it has the epoch."""
        assert self._store is not None
        numbered = replace(context, epoch=self._store.epoch)
        logs = {edge.wired.reader for edge in self._edges}
        kinds: dict[int, set[bool]] = {}
        for node, segment in zip(self.plan.nodes, self.wired.segment_of, strict=True):
            if node.role in (Role.SOURCE, Role.AGGREGATOR):
                kinds.setdefault(segment, set()).add(node.name in logs)
        return [
            numbered if kinds.get(segment) == {True} else context
            for segment in self.wired.segment_of
        ]

    def open(self, runners: Sequence[Runner]) -> None:
        """Opens the store; raises if the flow is not safe, or does not fit the stored state."""
        self._checkpoints = Checkpoints(self.wired, runners)
        by_checkpoint = self._checkpoints.by_checkpoint
        is_saved = [by_checkpoint[segment] for segment in self.wired.segment_of]
        check_aggregators(self.plan, runners, is_saved)
        logs = {edge.name: edge.options for edge in self._edges}
        store = self._store = DurableStore.open(state_path(self.plan), logs)
        if self._is_fresh:
            store.discard()
        elif differences := self._checkpoints.differences(store):
            self.close_store()
            raise shape_changed(self.plan.name, differences)
        by_name = {runner.node.name: runner for runner in runners}
        for edge in self._edges:
            edge.open(store, self._bell, pauses=not by_checkpoint[edge.writer_segment])
            writer: Any = by_name[edge.wired.writer].component
            reader: Any = by_name[edge.wired.reader].component
            writer.log = reader.log = edge.log
            reader.rate = float(edge.wired.edge.drain_rate or 0)
            reader.by_checkpoint = by_checkpoint[edge.reader_segment]
        interval_s = self.plan.checkpoint_s or 1.0
        committer = Committer(self._edges, store)
        self._thread = CarrierThread(
            self.wired, self._edges, committer, self._checkpoints, self._bell, interval_s
        )

    def check_swap(self, old: Runner, new: Runner, runners: Sequence[Runner]) -> None:
        """Raises if a new component does not fit into the checkpoints of the run."""
        if needs_checkpoints(old) != needs_checkpoints(new):
            what = "only one of them has a `snapshot`, and the flow saves its state"
            raise unfit(old.node, what, "define `snapshot` and `restore` on both, or on neither")
        by_checkpoint = self._checkpoints.by_checkpoint
        is_saved = [by_checkpoint[segment] for segment in self.wired.segment_of]
        check_aggregators(self.plan, runners, is_saved)

    def restore(self) -> None:
        """Gives initialized components their last states."""
        assert self._store is not None
        self.restored = self._checkpoints.restore(self._store)

    def native_options(self) -> tuple[list[int], list[bool], Callable[..., None]]:
        assert self._thread is not None
        return list(self.wired.segment_of), self._checkpoints.by_checkpoint, self._thread.on_cut

    def start(self, native: NativeFlow) -> None:
        assert self._thread is not None
        self._is_started = True
        self._thread.start(native)

    def drain(self, cancel: Callable[[], None]) -> None:
        """Saves everything at rest, then cancels the flow: a new run continues from there."""
        thread = self._thread
        if thread is None:
            cancel()
            return
        thread.request_final()
        timeout_s = self.plan.runtime.drain_timeout_s

        def wait() -> None:
            thread.is_final.wait(timeout_s)
            cancel()

        threading.Thread(target=wait, name="torvyn-drain", daemon=True).start()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to become durable, or to be read back."""
        return self._thread is None or self._thread.is_idle

    def finish(self, is_completed: bool) -> None:
        """Commits what is left; afterwards the last acknowledgements can be delivered."""
        thread, self._thread = self._thread, None
        if thread is not None and self._is_started:
            thread.stop()
            thread.finish(is_completed)
        self.close_store()

    def close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            self._statistics = {edge.name: store.statistics(edge.name) for edge in self._edges}
            store.close()

    def edges(self) -> list[tuple[DiskEdge, LogStatistics]]:
        """The edges and what they have stored, now or at the end."""
        pairs = []
        for edge in self._edges:
            store = self._store
            known = self._statistics.get(edge.name)
            if known is None and store is not None:
                known = store.statistics(edge.name)
            if known is not None:
                pairs.append((edge, known))
        return pairs
