"""The thread that makes a flow durable: it commits batches, settled positions and checkpoints, and
reads the backlog.

It commits whatever waits when the last commit has ended, so one `fsync` serves all that came in the
meantime. A disk that fails degrades the flow and never ends it: nothing is acknowledged before it
is durable, and what waits is tried again.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from torvyn._native import Bell, NativeFlow
from torvyn.durable import (
    Append,
    Checkpoint,
    DurableStore,
    LostRange,
    StoreUnavailable,
    Transaction,
)
from torvyn.reactor.carriers.checkpoints import Checkpoints
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.wired_plan import WiredPlan

Runs: TypeAlias = list[tuple[int, int]]
"""First and last sequence numbers, in order."""

logger = logging.getLogger("torvyn.durable")

IDLE_S: Final = 0.25
"""The longest time between two looks at what is settled and what has expired."""
SETTLE_S: Final = 0.02
"""Settled positions alone are committed at most so often; a crash repeats what came since."""
CUT_S: Final = 0.05
"""The shortest time between two checkpoints, when elements wait for them."""
TIDY_S: Final = 10.0
"""How long nothing is committed before the store is tidied."""
SOURCE_STATE_S: Final = 5.0
"""How often the states of acknowledged sources are saved."""
LONGEST_RETRY_S: Final = 5.0


@dataclass(slots=True)
class Cut:
    """A segment at rest: what becomes durable together."""

    segment: int
    checkpoint: Checkpoint
    runs: dict[str, Runs] = field(default_factory=dict)
    """By log: what the segment has read."""
    issued: dict[int, int] = field(default_factory=dict)
    """By source: how many elements it had emitted."""


class CarrierThread:
    def __init__(
        self,
        wired: WiredPlan,
        edges: Sequence[DiskEdge],
        store: DurableStore,
        bell: Bell,
        interval_s: float,
    ) -> None:
        self._wired = wired
        self._edges = edges
        self._store = store
        self._bell = bell
        self._interval_s = interval_s
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._cuts: dict[int, Cut] = {}
        self._requested: dict[int, float] = {}
        self._last_cut: dict[int, float] = {}
        self._last_states: dict[int, Checkpoint] = {}
        self._settled_at_s = 0.0
        self._runs: dict[str, Runs] = {}
        """By log: what was settled and is not durable yet."""
        self._retry_at_s = 0.0
        self._committed_at_s = self._tidied_at_s = time.monotonic()
        self._failures = 0
        self.is_final = threading.Event()
        self._wants_final = False
        self._final: set[int] = set()
        """The segments that were saved for the last time."""

    def start(self, native: NativeFlow, checkpoints: Checkpoints) -> None:
        self._native, self._checkpoints = native, checkpoints
        self._last_cut = dict.fromkeys(range(len(self._wired.segments)), time.monotonic())
        for edge in self._edges:
            writer, reader = edge.wired.writer, edge.wired.reader
            edge.attach(
                native.node(self._wired.index(writer)), native.node(self._wired.index(reader))
            )
            edge.refill()
            edge.finish_if_drained()
        self._thread = threading.Thread(target=self._run, name="torvyn-carrier", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping:
            self._bell.wait(self._pause_s())
            if self._is_stopping:
                return
            try:
                self.round()
            except StoreUnavailable as error:
                self._note_failure(error)
            except Exception:
                logger.exception("the carrier of flow `%s` failed", self._wired.plan.name)
                self._retry_at_s = time.monotonic() + 1.0

    def _pause_s(self) -> float:
        """How long there is nothing to do unless the bell rings."""
        is_moving = any(edge.log.unsettled for edge in self._edges)
        pause_s = SETTLE_S if self._runs or is_moving else IDLE_S
        if self._failures:
            pause_s = max(self._retry_at_s - time.monotonic(), 0.001)
        elif any(self._checkpoints.by_checkpoint):
            pause_s = min(pause_s, CUT_S)
        return pause_s

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the flow. From any thread."""
        return not self._requested and all(edge.is_idle for edge in self._edges)

    # One round

    def round(self) -> None:
        """Commits what waits, and supplies the readers. A disk that takes nothing can often still
        be read, so that the readers make room: a failure does not end the round."""
        failure: StoreUnavailable | None = None
        for work in (self._commit_all, self._supply_readers, self._save_sources, self._tidy):
            try:
                work()
            except StoreUnavailable as error:
                failure = failure or error
        self._request_cuts()
        if failure is not None:
            raise failure

    def _commit_all(self) -> None:
        self._collect_settled()
        if time.monotonic() < self._retry_at_s:
            # The disk has failed: what is settled still makes room.
            self._commit_settled()
            return
        for edge in self._edges:
            if not self._is_by_checkpoint(edge.wired.writer):
                edge.take()
        self._commit_batches()
        for segment in list(self._cuts):
            self._commit_cut(segment)

    def _supply_readers(self) -> None:
        for edge in self._edges:
            edge.refill()
            edge.finish_if_drained()

    def _tidy(self) -> None:
        """Expires what is too old, and gives unused space back, while nothing else is committed."""
        now_s = time.monotonic()
        if now_s - max(self._committed_at_s, self._tidied_at_s) >= TIDY_S:
            self._tidied_at_s = now_s
            self._report_lost(self._store.tidy())

    def _save_sources(self) -> None:
        """Saves the states of sources that wait for acknowledgements, where nothing else has one:
        they do not depend on a position."""
        for segment, is_saved in enumerate(self._checkpoints.by_checkpoint):
            if is_saved or not self._checkpoints.has_states(segment):
                continue
            if time.monotonic() - self._last_cut.get(segment, 0.0) < SOURCE_STATE_S:
                continue
            self._last_cut[segment] = time.monotonic()
            checkpoint = self._checkpoints.take(segment, ())
            if checkpoint != self._last_states.get(segment):
                self._commit(Transaction(checkpoint=checkpoint))
                self._last_states[segment] = checkpoint

    def _is_by_checkpoint(self, node: str) -> bool:
        return self._checkpoints.by_checkpoint[self._wired.segment(node)]

    def _collect_settled(self) -> None:
        for edge in self._edges:
            if runs := edge.log.take_settled():
                self._runs.setdefault(edge.name, []).extend(runs)

    def _commit_batches(self) -> None:
        plain = [edge for edge in self._edges if not self._is_by_checkpoint(edge.wired.writer)]
        groups = self._groups(plain)
        if not groups:
            self._commit_settled()
            return
        try:
            for appends in groups:
                self._commit_appends(plain, Transaction(appends=appends))
        except StoreUnavailable as error:
            self._fail_if_full(error, plain)
            self._commit_settled()
            raise
        self._native.wake()

    def _groups(self, edges: Sequence[DiskEdge]) -> list[list[Append]]:
        """The batches that wait, in groups that fit into one transaction."""
        groups: list[list[Append]] = []
        size_bytes = 0
        limit_bytes = min((self._store.max_row_bytes(edge.name) for edge in edges), default=0)
        for append in (batch.append for edge in edges for batch in edge.waits):
            size_bytes += len(append.body)
            if not groups or size_bytes > limit_bytes:
                groups.append([])
                size_bytes = len(append.body)
            groups[-1].append(append)
        return groups

    def _commit_appends(
        self,
        edges: Sequence[DiskEdge],
        transaction: Transaction,
        runs: Mapping[str, Runs] = MappingProxyType({}),
    ) -> None:
        lost = self._commit(transaction, runs)
        for edge in edges:
            edge.commit_done(transaction.appends, lost)

    def _commit_settled(self) -> None:
        now_s = time.monotonic()
        if not self._runs or now_s - self._settled_at_s < SETTLE_S:
            return
        self._commit(Transaction())

    def _commit(
        self, transaction: Transaction, cut_runs: Mapping[str, Runs] = MappingProxyType({})
    ) -> list[LostRange]:
        """Commits a transaction together with everything that is settled by now."""
        runs = {
            edge.name: [*self._runs.get(edge.name, ()), *cut_runs.get(edge.name, ())]
            for edge in self._edges
        }
        for edge in self._edges:
            edge.add_settled(transaction, runs[edge.name])
        lost = self._store.commit(transaction)
        self._runs = {}
        self._settled_at_s = self._committed_at_s = time.monotonic()
        for edge in self._edges:
            edge.settle(runs[edge.name])
        self._report_lost(lost)
        if self._failures:
            logger.warning("flow `%s` is durable again", self._wired.plan.name)
            self._failures, self._retry_at_s = 0, 0.0
        return lost

    def _report_lost(self, lost: Sequence[LostRange]) -> None:
        for each in lost:
            logger.warning(
                "%d elements of `%s` were lost (%s)",
                each.count,
                each.log,
                each.reason,
                extra={"event": "edge.lost", "first": each.first, "last": each.last},
            )

    def _note_failure(self, error: StoreUnavailable) -> None:
        if error.reason == "limit":
            # Not a failure of the disk: the reader makes room.
            self._retry_at_s = time.monotonic() + 0.01
            return
        self._failures += 1
        pause_s = min(0.05 * 2 ** min(self._failures, 10), LONGEST_RETRY_S)
        self._retry_at_s = time.monotonic() + pause_s * random.uniform(0.5, 1.0)
        if self._failures == 1:
            logger.warning(
                "flow `%s` is degraded: %s",
                self._wired.plan.name,
                error,
                extra={"hint": error.hint},
            )

    def _fail_if_full(self, error: StoreUnavailable, edges: Sequence[DiskEdge]) -> None:
        for edge in edges:
            if error.reason == "limit" and edge.options.backpressure == "error" and edge.waits:
                edge.log.fail(str(error))
                edge.writer.resume()

    # Checkpoints

    def on_cut(
        self, segment: int, native_states: list[tuple[int, bytes]], finished: list[int]
    ) -> None:
        """Takes what a segment at rest hands over; called inside the turn."""
        counts = {at: self._native.issued(at) for at, _ in self._checkpoints.nodes(segment)}
        issued = {at: count for at, count in counts.items() if count}
        checkpoint = self._checkpoints.take(segment, native_states, finished)
        cut = Cut(segment, checkpoint, issued=issued)
        for edge in self._edges:
            if self._wired.segment(edge.wired.writer) == segment:
                edge.take_all()
            if self._wired.segment(edge.wired.reader) == segment:
                cut.runs[edge.name] = edge.log.take_emitted()
        self._cuts[segment] = cut
        self._bell.ring()

    def _request_cuts(self) -> None:
        now_s = time.monotonic()
        for segment, has_states in enumerate(self._checkpoints.by_checkpoint):
            if not (has_states or self._wants_final) or segment in self._requested:
                continue
            since_s = now_s - self._last_cut.get(segment, 0.0)
            if self._wants_final or since_s >= self._cut_interval_s(segment):
                self._requested[segment] = now_s
                self._native.request_cut(segment)

    def _cut_interval_s(self, segment: int) -> float:
        """Elements that wait for a checkpoint to become durable make it come earlier."""
        for edge in self._edges:
            if self._wired.segment(edge.wired.writer) == segment and edge.log.pending[0]:
                return min(CUT_S, self._interval_s)
        return self._interval_s

    def _commit_cut(self, segment: int) -> None:
        cut = self._cuts[segment]
        edges = [e for e in self._edges if self._wired.segment(e.wired.writer) == segment]
        *early, last = self._groups(edges) or [[]]
        for appends in early:
            # More than one transaction takes: a crash in between repeats elements, and loses none.
            self._commit_appends(edges, Transaction(appends=appends))
        transaction = Transaction(appends=last)
        is_new = self._last_states.get(segment) != cut.checkpoint
        if self._checkpoints.by_checkpoint[segment] and is_new:
            transaction.checkpoint = cut.checkpoint
        if last or transaction.checkpoint is not None or any(cut.runs.values()):
            self._commit_appends(edges, transaction, cut.runs)
        self._last_states[segment] = cut.checkpoint
        for at, count in cut.issued.items():
            self._native.settle_checkpoint(at, count)
        del self._cuts[segment]
        self._last_cut[segment] = time.monotonic()
        if not self._wants_final:
            del self._requested[segment]
            self._native.release_cut(segment)
            return
        self._final.add(segment)
        if len(self._final) == len(self._wired.segments):
            self.is_final.set()

    # The end

    def request_final(self) -> None:
        """Holds all sources, and saves everything once it has come to rest; then `is_final`."""
        self._wants_final = True
        self._requested.clear()
        self._bell.ring()

    def stop(self) -> None:
        self._is_stopping = True
        self._bell.ring()
        if self._thread is not None:
            self._thread.join()

    def finish(self, is_completed: bool) -> None:
        """Commits what is left after the last turn, within one attempt per kind of work."""
        self._retry_at_s = 0.0
        for edge in self._edges:
            if is_completed or not self._is_by_checkpoint(edge.wired.writer):
                edge.take_all()
        self._collect_settled()
        self._settled_at_s = 0.0
        try:
            self._commit_batches()
            for segment in list(self._cuts):
                self._commit_cut(segment)
            if is_completed:
                self._commit_end()
        except StoreUnavailable as error:
            logger.error("flow `%s` could not store its end: %s", self._wired.plan.name, error)

    def _commit_end(self) -> None:
        for segment, has_states in enumerate(self._checkpoints.by_checkpoint):
            if not has_states:
                continue
            edges = [e for e in self._edges if self._wired.segment(e.wired.writer) == segment]
            *early, last = self._groups(edges) or [[]]
            for appends in early:
                self._commit_appends(edges, Transaction(appends=appends))
            transaction = Transaction(appends=last, checkpoint=self._checkpoints.empty(segment))
            runs = {
                edge.name: edge.log.take_emitted()
                for edge in self._edges
                if self._wired.segment(edge.wired.reader) == segment
            }
            self._commit_appends(edges, transaction, runs)
            for at, _ in self._checkpoints.nodes(segment):
                self._native.settle_checkpoint(at, self._native.issued(at))
