"""Makes batches, settled positions and checkpoints of a flow durable, together.

Every commit takes along everything that is settled by then, so one `fsync` serves all of it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from torvyn.durable import (
    Append,
    Checkpoint,
    DurableStore,
    LostRange,
    StoreUnavailable,
    Transaction,
)
from torvyn.reactor.carriers.disk_edge import BUFFER_BYTES, DiskEdge
from torvyn.reactor.carriers.outage import LONGEST_RETRY_S

logger = logging.getLogger("torvyn.durable")

Runs: TypeAlias = list[tuple[int, int]]
"""First and last sequence numbers, in order."""
NO_RUNS: Final[Mapping[str, Runs]] = MappingProxyType({})

COMMIT_S: Final = 0.004
"""The shortest time between the beginnings of two commits. Each costs the processor and the disk as
much as some hundred elements do."""
CUT_S: Final = 0.05
"""The shortest time between two checkpoints, when elements wait for them."""
SETTLE_S: Final = 0.02
"""Settled positions alone are committed at most so often; a crash repeats what came since."""
CLOCK_STEP_NS: Final = 1_000_000_000
"""A clock that differs by less was corrected slowly, not set."""
TIDY_S: Final = 10.0
"""How long nothing is committed before the store is tidied."""


@dataclass(slots=True)
class Cut:
    """A segment at rest: what becomes durable together."""

    segment: int
    checkpoint: Checkpoint
    issued: dict[int, int]
    """By source: how many elements it had emitted."""
    runs: dict[str, Runs] = field(default_factory=dict)
    """By log: what the segment has read, if its state is saved with it."""
    native: Sequence[tuple[int, bytes]] = ()
    """The states of native stages."""
    finished: Sequence[int] = ()
    """The nodes that have flushed their states."""


class Committer:
    """All methods raise `StoreUnavailable`, and then nothing was made durable."""

    cut_s: float = CUT_S
    read_cut_s: float = math.inf
    """The shortest time between two checkpoints, when what was read waits for them."""
    retry_in_s: float = math.inf
    """When something is tried again that was refused."""
    nap_s: float = 0.0
    """How long work waits after the bell has rung: a reader rings for almost every element."""
    is_patient = False
    longest_retry_s = LONGEST_RETRY_S
    """Whether the end of a flow waits until it is stored."""

    def __init__(self, edges: Sequence[DiskEdge], store: DurableStore) -> None:
        self._edges = edges
        self._store = store
        self._runs: dict[str, Runs] = {}
        """By log: what was settled and is not durable yet."""
        self._committed_at_s = self._tidied_at_s = time.monotonic()
        self.began_at_s = 0.0
        """When the last commit began."""
        self.commits = 0
        self._offset_ns = self._stepped_ns = 0

    def pause_left_s(self) -> float:
        """How long the next commit waits, so that more elements share it."""
        is_full = any(edge.log.pending[1] >= BUFFER_BYTES for edge in self._edges)
        return 0.0 if is_full else self.began_at_s + COMMIT_S - time.monotonic()

    def set_clock(self, offset_ns: int) -> None:
        """Sets the Unix time less the flow's time, with which elements are stored."""
        self._offset_ns = offset_ns
        for edge in self._edges:
            edge.log.set_offset(offset_ns)

    def begin(self) -> None:
        """Expires what became too old while no process ran: nothing has been read yet."""
        _report_lost(self._stored(partial(self._store.commit, Transaction())))

    def follow_clock(self) -> None:
        """A gateway often learns the time after it has started. Elements that come later are stored
        with the right time, so that the next run knows their age."""
        stepped_ns = self._store.stepped_ns
        if abs(stepped_ns - self._stepped_ns) > CLOCK_STEP_NS:
            self._stepped_ns = stepped_ns
            for edge in self._edges:
                edge.log.step_offset(self._offset_ns + stepped_ns)

    @property
    def has_settled(self) -> bool:
        return bool(self._runs)

    def collect_settled(self) -> None:
        for edge in self._edges:
            if runs := edge.log.take_settled():
                self._runs.setdefault(edge.name, []).extend(runs)

    def commit_settled(self, *, at_once: bool = False) -> None:
        """Commits what is settled, if there is any and the last commit is some time ago."""
        is_due = at_once or time.monotonic() - self._committed_at_s >= SETTLE_S
        if self._runs and is_due:
            self._commit(Transaction())

    def commit_batches(
        self,
        edges: Sequence[DiskEdge],
        checkpoint: Checkpoint | None = None,
        runs: Mapping[str, Runs] = NO_RUNS,
    ) -> None:
        """Commits the batches that wait on these edges, with a checkpoint and what was read up to
        it. If they take more than one transaction, a crash in between repeats elements and loses
        none: the checkpoint comes with the last."""
        *early, last = self._groups(edges) or [[]]
        for appends in early:
            self._commit_appends(edges, Transaction(appends=appends))
        if last or checkpoint is not None or any(runs.values()):
            transaction = Transaction(appends=last, checkpoint=checkpoint)
            self._commit_appends(edges, transaction, runs)

    def commit_cut(
        self, cut: Cut, edges: Sequence[DiskEdge], checkpoint: Checkpoint | None
    ) -> None:
        """Commits what a segment at rest has handed over."""
        self.commit_batches(edges, checkpoint, cut.runs)

    def commit_end(self, cut: Cut, edges: Sequence[DiskEdge]) -> None:
        """Commits what a segment leaves that has ended in order."""
        self.commit_batches(edges, cut.checkpoint, cut.runs)

    def commit_over(self, is_completed: bool) -> None:
        """The flow has ended, and everything is committed."""

    def tidy(self) -> None:
        """Expires what is too old, and gives unused space back, while nothing else is committed."""
        now_s = time.monotonic()
        if now_s - max(self._committed_at_s, self._tidied_at_s) >= TIDY_S:
            self._tidied_at_s = now_s
            _report_lost(self._stored(self._store.tidy))

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
        runs: Mapping[str, Runs] = NO_RUNS,
    ) -> None:
        lost = self._commit(transaction, runs)
        for edge in edges:
            edge.commit_done(transaction.appends, lost)

    def _commit(
        self, transaction: Transaction, cut_runs: Mapping[str, Runs] = NO_RUNS
    ) -> list[LostRange]:
        runs = {
            edge.name: [*self._runs.get(edge.name, ()), *cut_runs.get(edge.name, ())]
            for edge in self._edges
        }
        for edge in self._edges:
            edge.add_settled(transaction, runs[edge.name])
        self.began_at_s = time.monotonic()
        lost = self._stored(partial(self._store.commit, transaction))
        for edge in self._edges:
            edge.settled(transaction)
        self._runs, self._committed_at_s = {}, time.monotonic()
        self.commits += 1
        _report_lost(lost)
        return lost

    def _stored(self, work: Callable[[], list[LostRange]]) -> list[LostRange]:
        """Does something that may drop what the readers have."""
        lost: list[LostRange] = []
        try:
            lost = work()
        finally:
            for edge in self._edges:
                edge.drop_withdrawn(lost)
        return lost


def _report_lost(lost: Sequence[LostRange]) -> None:
    causes: dict[tuple[str, str], list[LostRange]] = {}
    for each in lost:
        causes.setdefault((each.log, each.reason), []).append(each)
    for (log, reason), ranges in causes.items():
        logger.warning(
            "%d elements of `%s` were lost (%s)",
            sum(each.count for each in ranges),
            log,
            reason,
            extra={"event": "edge.lost", "first": ranges[0].first, "last": ranges[-1].last},
        )


def attempt_all(work: Iterable[Callable[[], None]]) -> StoreUnavailable | None:
    """Does all of it; returns the first failure."""
    failure: StoreUnavailable | None = None
    for each in work:
        try:
            each()
        except StoreUnavailable as error:
            failure = failure or error
    return failure


def raise_if_failed(failure: StoreUnavailable | None) -> None:
    if failure is not None:
        raise failure
