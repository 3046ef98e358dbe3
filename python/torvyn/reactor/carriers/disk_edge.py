"""One `disk` edge while its flow runs: batches on their way to the store, and back to the reader.

Elements that the store has just made durable are supplied from memory as long as the reader keeps
up; behind that, and after a restart, they are read back in pages.

In the flow, the number of an element is its number in the log behind the edge's origin, so that
elements of several edges differ. The store knows the numbers of its logs only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from torvyn._native import BatchReceipts, Bell, EdgeLog
from torvyn.components.identity import ORIGIN_SHIFT
from torvyn.durable import Append, DurableStore, LogOptions, LostRange, Row, Transaction
from torvyn.reactor.carriers.number_ranges import NumberRanges
from torvyn.reactor.carriers.wired_plan import DurableEdge

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.carriers.wired_plan import WiredPlan

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
