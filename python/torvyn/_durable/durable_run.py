"""One run of a flow that survives its process: its store, its carrier thread, its checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torvyn._contract.element import Context
from torvyn._contract.enums import Role
from torvyn._durable.backend import LogStatistics
from torvyn._durable.checkpoint import Checkpoints, StateHolder
from torvyn._durable.committer import CarrierThread
from torvyn._durable.dead_letters import FILE, DeadLetterStore, ReturnedLetters
from torvyn._durable.disk.backend import Committer, DiskEdge
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.segments import WiredPlan, shape_changed, state_path, wire
from torvyn._io.start_wait import StartWait
from torvyn._link.plan import Plan
from torvyn._native import Bell, NativeFlow
from torvyn.errors import StoreUnavailable


def letters_path(plan: Plan) -> Path:
    """The dead letters of a flow, next to its database."""
    return state_path(plan).with_name(FILE)


class DurableRun:
    """Made before the components, opened before they are initialized, closed after the last turn
    and before they are torn down."""

    is_remote = False
    """Whether `finish` may wait for another machine."""

    def __init__(self, plan: Plan, is_fresh: bool, discards: Collection[str] = ()) -> None:
        self.wired: WiredPlan = self._wire(plan)
        self.letters = DeadLetterStore(letters_path(plan))
        self._start_wait = self._make_start_wait(plan)
        self._is_fresh = is_fresh
        self._discards = discards
        self._edges = self._make_edges()
        self._bell = Bell()
        self._store: DurableStore | None = None
        self._thread: CarrierThread | None = None
        self._statistics: dict[str, LogStatistics] = {}
        self._is_started = False
        self._ending: CarrierThread | None = None
        self.is_cancelled = False
        self._failure: BaseException | None = None
        self.unstored: StoreUnavailable | None = None
        """Why the end of the flow is not stored, though it has ended in order."""

    def _wire(self, plan: Plan) -> WiredPlan:
        return wire(plan)

    def _make_start_wait(self, plan: Plan) -> StartWait:
        return StartWait(plan.name, plan.deadline_s)

    def _make_edges(self) -> list[Any]:
        segment = self.wired.segment
        return [
            DiskEdge(edge, segment(edge.writer), segment(edge.reader)) for edge in self.wired.edges
        ]

    @property
    def failure(self) -> BaseException | None:
        """Why the run cannot go on."""
        return self._failure

    @property
    def plan(self) -> Plan:
        return self.wired.plan

    def contexts(self, context: Context) -> list[Context]:
        """The context of each node. Where a log has numbered the elements it has the epoch."""
        assert self._store is not None
        wired = self.wired
        numbered = replace(context, epoch=self._store.epoch)
        logs = {edge.reader for edge in wired.edges}
        kinds: dict[int, set[bool]] = {}
        for node, segment in zip(wired.plan.nodes, wired.segment_of, strict=True):
            if node.role in (Role.SOURCE, Role.AGGREGATOR):
                kinds.setdefault(segment, set()).add(node.name in logs)
        return [
            numbered if kinds.get(segment) == {True} else context for segment in wired.segment_of
        ]

    def choose(self, runners: Sequence[StateHolder]) -> None:
        """Decides which segments are saved by checkpoints. Asks nobody."""
        self._checkpoints = Checkpoints(self.wired, runners, self._discards)

    @property
    def saved_nodes(self) -> list[bool]:
        """Of each node, whether its segment is saved by checkpoints."""
        by_checkpoint = self._checkpoints.by_checkpoint
        return [by_checkpoint[of] for of in self.wired.segment_of]

    def open(self, runners: Sequence[StateHolder]) -> None:
        """Opens the store; raises if the flow does not fit the stored state. Waits for a disk that
        is full or fails."""
        by_checkpoint = self._checkpoints.by_checkpoint
        logs = {edge.name: edge.options for edge in self._edges}
        path, retry = state_path(self.plan), self._start_wait.retry
        store = self._store = DurableStore.open(path, logs, retry=retry)
        if self._is_fresh:
            store.discard()
        elif differences := self._checkpoints.differences(store):
            self.close_store()
            raise shape_changed(self.plan.name, differences)
        by_name = {runner.node.name: runner for runner in runners}
        for edge in self._edges:
            pauses = not by_checkpoint[edge.writer_segment]
            edge.open(store, self._bell, pauses=pauses)
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
        self._thread.returned = ReturnedLetters(self.letters, store)
        self._thread.returned.open()

    def restore(self) -> None:
        """Gives initialized components their last states."""
        assert self._store is not None
        self._checkpoints.restore(self._store)

    def native_options(self) -> tuple[list[int], list[bool], Callable[..., None]]:
        assert self._thread is not None
        return list(self.wired.segment_of), self._checkpoints.by_checkpoint, self._thread.on_cut

    def start(self, native: NativeFlow) -> None:
        assert self._thread is not None
        self._is_started = True
        self._checkpoints.emitted = lambda at: int(native.statistics()["nodes"][at]["emitted"])
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

    def finish(self, is_completed: bool, limit_s: float | None = None) -> None:
        """Commits what is left; afterwards the last acknowledgements can be delivered. `limit_s`:
        how long it may wait until the end is stored."""
        thread, self._thread = self._thread, None
        if thread is not None and self._is_started:
            self._ending = thread
            if self.is_cancelled:
                thread.is_abandoned.set()
            thread.stop()
            thread.finish(is_completed, limit_s)
            if thread.returned is not None:
                thread.returned.finish()
            self._failure = thread.failure
            self.unstored = thread.unstored
        self.close_store()

    def cancel(self) -> None:
        """The flow is cancelled: its end is not waited for. Thread-safe."""
        self.is_cancelled = True
        self.cancel_start()
        for thread in (self._thread, self._ending):
            if thread is not None:
                thread.is_abandoned.set()

    def cancel_start(self) -> None:
        """A start that waits for its disk or its broker ends. Thread-safe."""
        self._start_wait.give_up()

    @property
    def is_start_cancelled(self) -> bool:
        """Whether a start that has failed was cancelled."""
        return self._start_wait.is_given_up

    def close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            self._statistics = {edge.name: store.statistics(edge.name) for edge in self._edges}
            store.close()

    def close_letters(self) -> None:
        """The last element of the run is settled."""
        self.letters.close()

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
