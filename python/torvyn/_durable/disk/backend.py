"""Makes batches, settled positions and checkpoints of a flow durable on disk, together.

Every commit takes along everything that is settled by then, so one `fsync` serves all of it.
Elements that the store has just made durable are supplied from memory as long as the reader keeps
up; behind that, and after a restart, they are read back in pages. In the flow, the number of an
element is its number in the log behind the edge's origin, so that elements of several edges differ.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from torvyn._durable.backend import Append, LogOptions, LostRange, Row, Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.outage import LONGEST_RETRY_S
from torvyn._durable.segments import DurableEdge
from torvyn._durable.state_log import Checkpoint
from torvyn._native import BatchReceipts, Bell, EdgeLog
from torvyn.components.identity import ORIGIN_SHIFT
from torvyn.errors import StoreUnavailable

if TYPE_CHECKING:
    from torvyn._durable.segments import WiredPlan
    from torvyn._native import NativeFlow


class NumberRanges:
    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        """First and last numbers, in order; neighbours are joined."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, first: int, last: int) -> None:
        start = self._at(first - 1)
        end = start
        while end < len(self._ranges) and self._ranges[end][0] <= last + 1:
            first, last = min(first, self._ranges[end][0]), max(last, self._ranges[end][1])
            end += 1
        self._ranges[start:end] = [(first, last)]

    def remove(self, first: int, last: int) -> None:
        start = self._at(first)
        end, rest = start, []
        while end < len(self._ranges) and self._ranges[end][0] <= last:
            low, high = self._ranges[end]
            rest += [(low, first - 1)] if low < first else []
            rest += [(last + 1, high)] if high > last else []
            end += 1
        self._ranges[start:end] = rest

    def missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are not in the set."""
        for low, high in self._ranges[self._at(first) :]:
            if low > last:
                break
            if low > first:
                yield first, low - 1
            first = high + 1
        if first <= last:
            yield first, last

    def common(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are in the set."""
        for low, high in self._ranges[self._at(first) :]:
            if low > last:
                break
            yield max(low, first), min(high, last)

    def count(self, first: int, last: int) -> int:
        """How many numbers of a range are in the set."""
        gaps = sum(high - low + 1 for low, high in self.missing(first, last))
        return max(last - first + 1, 0) - gaps

    def _at(self, number: int) -> int:
        """The first range that ends at a number or behind it."""
        at = bisect_right(self._ranges, (number, -1))
        return at - 1 if at and self._ranges[at - 1][1] >= number else at


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


BUFFER_BYTES: Final = 1024 * 1024
"""A batch is committed when it has so many bytes, whatever else happens."""
WINDOW_BYTES: Final = 1024 * 1024
"""What may wait in memory for the reader."""
PAGE_BYTES: Final = 32 * 1024
"""How much of the backlog is read before new elements, which wait to be stored, have their turn."""


@dataclass(frozen=True, slots=True)
class TakenBatch:
    """A batch that is not durable yet."""

    append: Append
    receipts: BatchReceipts


class DiskEdge:
    def __init__(self, wired: DurableEdge, writer_segment: int, reader_segment: int) -> None:
        self.name = wired.log
        self.wired = wired
        self.writer_segment: int | None = writer_segment
        self.reader_segment: int | None = reader_segment
        self.options = LogOptions(
            wired.edge.max_bytes,
            wired.edge.max_age_s,
            wired.edge.backpressure,  # type: ignore[arg-type]
        )
        self.is_live_first = wired.edge.order == "live-first"
        self.waits: list[TakenBatch] = []
        """Taken from the writer and not durable yet."""
        self.stored_before = self.lost_before = 0
        self.put_back_count = 0
        """Dead letters that became elements of this edge again."""
        self._next = 0
        """The first element that was not supplied from the backlog."""
        self._ahead = NumberRanges()
        """What was supplied behind it."""
        self._withdrawn = NumberRanges()
        """What a commit under way has taken back from the reader, to drop it."""
        self._expired = NumberRanges()
        """What became too old behind the reader, and is not known to be settled."""
        self._is_finished = False

    def open(self, store: DurableStore, bell: Bell, pauses: bool) -> None:
        self.store = store
        most = store.max_row_bytes(self.name) // 2
        self._origin = store.log_number(self.name) << ORIGIN_SHIFT
        first = self._origin + store.next_sequence(self.name)
        self.log = EdgeLog(bell, first, min(BUFFER_BYTES, most), most - 1024, pauses)
        self._next = store.acknowledged(self.name) + 1
        store.set_withdraw(self.name, self._withdraw)
        stored, found_lost = store.statistics(self.name), store.found_lost(self.name)
        # What has just been found to be missing counts as dropped in this run.
        self.stored_before = stored.elements + found_lost
        self.lost_before = stored.lost_before_reader - found_lost

    @property
    def max_letter_bytes(self) -> int:
        """The largest batch of one element that the edge stores."""
        return self.store.max_row_bytes(self.name)

    @property
    def takes_letters(self) -> bool:
        """Whether what is put in front of the node now will reach it."""
        return not self._is_finished

    def put_back(self, batches: list[bytes]) -> int:
        """Puts batches of one element each in front of what waits to be stored. Returns the number
        that the first of them will have in the log."""
        first = self.log.put_back(batches, time.time_ns())
        self.put_back_count += len(batches)
        return first - self._origin

    def attach(self, native: NativeFlow, wired: WiredPlan) -> None:
        self.writer = native.node(wired.index(self.wired.writer))
        self.reader = native.node(wired.index(self.wired.reader))

    def fail(self, message: str) -> None:
        """Ends the flow."""
        self.log.fail(message)
        self.writer.resume()

    @property
    def is_idle(self) -> bool:
        """Whether everything is durable, and the reader has what it can take."""
        is_stored = not self.log.pending[0] and not self.waits
        is_read = self._next >= self.store.next_sequence(self.name) or self.log.waiting[0] > 0
        return is_stored and is_read

    # From the writer to the store

    def take(self) -> None:
        """Takes what waits, unless the store has no room for it: then the writer blocks."""
        count, size_bytes = self.log.pending
        if not count or self.waits:
            return
        if self.options.backpressure == "block" and not self.store.has_room(self.name, size_bytes):
            return
        self.take_all()

    def take_all(self) -> None:
        while (taken := self.log.take()) is not None:
            first, count, newest_ns, body, receipts, _ = taken
            append = Append(self.name, first - self._origin, count, body, newest_ns)
            self.waits.append(TakenBatch(append, receipts))
        self.writer.resume()

    def commit_done(self, appends: Sequence[Append], lost: list[LostRange]) -> None:
        """The batches are durable, or were dropped by the policy: either settles them."""
        gone = [each for each in lost if each.log == self.name]
        while self.waits and self.waits[0].append in appends:
            batch = self.waits.pop(0)
            batch.receipts.settle()
            is_dropped = any(each.first <= batch.append.first <= each.last for each in gone)
            if not is_dropped:
                self._supply_new(batch.append)

    # From the store to the reader

    def _supply_new(self, append: Append) -> None:
        """Supplies a batch from memory if that keeps the order and the reader has room."""
        # Old elements in front of the reader must not keep new ones out of the live lane.
        waiting_bytes = self.log.live_bytes if self.is_live_first else self.log.waiting[1]
        has_room = waiting_bytes < WINDOW_BYTES
        is_next = append.first == self._next
        if not has_room or not (is_next or self.is_live_first):
            return
        last = append.first + append.count - 1
        if is_next:
            self._next = last + 1
        else:
            self._ahead.add(append.first, last)
        first = self._origin + append.first
        end = first + append.count
        is_live = self.is_live_first
        self.log.supply(append.body, first, first, end, is_backlog=False, is_live=is_live)
        self.reader.wake()

    def refill(self) -> None:
        """Reads the backlog while the reader has room for it and nothing waits to be stored."""
        while (
            self._next < self.store.next_sequence(self.name)
            and self.log.waiting[1] < WINDOW_BYTES // 2
        ):
            self._refill_page()
            self.reader.wake()
            if self.log.pending[0] and not self.waits:
                return

    def _refill_page(self) -> None:
        end = self.store.next_sequence(self.name)
        missing = next(self._ahead.missing(self._next, end - 1), None)
        self._next = end if missing is None else missing[0]
        rows = self.store.read(self.name, self._next - 1, PAGE_BYTES)
        for row in rows:
            self._supply_row(row)
        if not rows:
            # What is left was lost, or is on its way already.
            self._next = end
        self._ahead.remove(0, self._next - 1)

    def _supply_row(self, row: Row) -> None:
        try:
            for part in self.store.unsettled(self.name, max(row.first, self._next), row.last):
                for first, last in self._ahead.missing(*part):
                    self.log.supply(
                        row.body,
                        self._origin + row.first,
                        self._origin + first,
                        self._origin + last + 1,
                        is_backlog=True,
                        is_historical=self.is_live_first,
                    )
        except ValueError as error:
            self.store.quarantine(self.name, row.first, str(error))
        self._next = row.last + 1

    # What the limits drop

    def _withdraw(self, parts: list[tuple[int, int]]) -> bool:
        """Takes elements back from the reader, unless it has emitted some of them."""
        for first, last in parts:
            supplied = max(min(last + 1, self._next) - first, 0)
            supplied += self._ahead.count(max(first, self._next), last)
            supplied -= self._withdrawn.count(first, last)
            start, end = self._origin + first, self._origin + last + 1
            if not self.log.withdraw(start, end, supplied):
                return False
            self._withdrawn.add(first, last)
        return True

    def drop_withdrawn(self, lost: Sequence[LostRange]) -> None:
        """A commit has ended, and has dropped this. What else was taken back is still stored, and
        is read again."""
        if not self._withdrawn:
            return
        for each in lost:
            if each.log == self.name:
                self._withdrawn.remove(each.first, each.last)
        if self._withdrawn:
            self._rewind()
        self.reader.wake()

    def _rewind(self) -> None:
        """Everything that the reader has not emitted is read again, in order."""
        gone = [*self._withdrawn, *self._in_log(self.log.withdraw_all())]
        first = min(first for first, _ in gone)
        if first < self._next:
            self._ahead.add(first, self._next - 1)
            self._next = first
        for each in gone:
            self._ahead.remove(*each)
        self._withdrawn = NumberRanges()

    def finish_if_drained(self) -> None:
        """Ends the reader's stream when the writer has ended and everything was supplied."""
        if self._is_finished or not self.log.is_closed:
            return
        is_stored = not self.log.pending[0] and not self.waits
        if is_stored and self._next >= self.store.next_sequence(self.name):
            self._is_finished = True
            self.log.finish()
            self.reader.wake()

    # What is settled

    def add_settled(self, transaction: Transaction, runs: list[tuple[int, int]]) -> None:
        """Adds what the next node has settled to a transaction. Nothing is forgotten:
        the transaction may fail."""
        if not runs:
            return
        done = NumberRanges()
        for run in self._in_log(runs):
            done.add(*run)
        for run in self._in_log(self.log.take_expired()):
            self._expired.add(*run)
        if expired := [part for run in done for part in self._expired.common(*run)]:
            transaction.expired = {**transaction.expired, self.name: expired}
        if self.is_live_first:
            transaction.settled_ranges = {**transaction.settled_ranges, self.name: [*done]}
        else:
            *_, (_, last) = done
            transaction.acknowledged = {**transaction.acknowledged, self.name: last}

    def settled(self, transaction: Transaction) -> None:
        """The transaction is durable."""
        for part in transaction.expired.get(self.name, ()):
            self._expired.remove(*part)

    def _in_log(self, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The numbers that the elements have in the log."""
        return [(first - self._origin, last - self._origin) for first, last in runs]
