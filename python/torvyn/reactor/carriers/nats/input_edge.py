"""The end of a `nats` edge that reads: messages of the broker become elements of the flow.

An element's sequence number is that of its message in the stream, and its index there: the same in
every run. Elements of several edges into a segment differ by the number of their edge.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torvyn._native import Bell, EdgeLog
from torvyn.jetstream import OrderedReader, StoredMessage
from torvyn.reactor.carriers.nats.batch_ids import BatchId
from torvyn.reactor.carriers.nats.names import EdgeNames
from torvyn.reactor.carriers.nats.purger import Purger
from torvyn.reactor.carriers.nats.refusals import server_too_old
from torvyn.reactor.carriers.nats.run_ends import RunEnds
from torvyn.reactor.carriers.nats.seen_batches import SeenBatches
from torvyn.reactor.carriers.wired_plan import DurableEdge

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
    from torvyn.reactor.carriers.wired_plan import WiredPlan

logger = logging.getLogger("torvyn.durable")

WINDOW_BYTES: Final = 1024 * 1024
"""What may wait in memory for the reader."""
INDEX_BITS: Final = 16
FILTERS_VERSION: Final = (2, 10)
"""The first version of the server that reads several subjects of a stream in order."""
LANE_SHIFT: Final = 56
NO_ELEMENT: Final = -1
TELL_S: Final = 1.0
"""What expires within this time is logged together."""


class _Supplied(NamedTuple):
    """A message whose elements are in the flow, or that has none."""

    sequence: int
    batch: BatchId | None
    """None if it has come before, or was not written by a flow."""
    last: int
    """The sequence number of its last element; -1 if it has none."""


class InputEdge:
    """`_receive` and `purge` run on the loop, the other methods on the carrier thread."""

    def __init__(
        self, wired: DurableEdge, segment: int, names: EdgeNames, owned: Sequence[int], writers: int
    ) -> None:
        self.name = wired.log
        self.wired = wired
        self.names = names
        self.writer_segment: int | None = None
        self.reader_segment: int | None = segment
        self.options = wired.edge
        self.waits: tuple[Any, ...] = ()
        self.owned = owned
        self.writers = writers
        self._owns_all = len(owned) == names.partitions
        self._expected = [(writer, part) for writer in range(writers) for part in owned]
        self.received = self.from_before = self.repeated = self.corrupt = 0
        self.lane = 0
        """Which of the edges into the segment it is."""
        self.generation = ""
        """That of the writer in this process, if it is here."""
        self._consumer: OrderedReader | None = None
        self._supplied: deque[_Supplied] = deque()
        self._position = 0
        self._done = 0
        """The last message of which nothing is needed any more."""
        self._changes = self._saved_changes = 0
        """What was settled, and what of it the entry of the segment holds."""
        self._saving = (0, 0)
        self._is_over = False
        self._expired_last = self._expired_told = 0
        self._tell_at_s = 0.0

    def open(
        self,
        bell: Bell,
        broker: BrokerThread,
        saved: dict[str, Any] | None,
        run: str,
        *,
        is_fresh: bool = False,
    ) -> None:
        """`run`: the run of the writers, if it is known."""
        if not self._owns_all and broker.broker.version < FILTERS_VERSION:
            raise server_too_old(self.name, broker.broker.version, FILTERS_VERSION)
        self.log = EdgeLog(bell, 0, 0, 0, False)
        self._broker = broker
        saved = saved or {"position": 0, "seen": None, "ends": None}
        self._position = saved["position"]
        self._seen = SeenBatches.from_json(saved["seen"])
        self._saved_seen = SeenBatches.from_json(saved["seen"])
        self._seen.knows_start = not is_fresh
        self._missing_before = self._seen.missing()
        self._ends = RunEnds(self._expected, run, saved["ends"])
        self._saved_ends = RunEnds(self._expected, run, saved["ends"])
        # The last message that was read may be settled in part.
        self._done = max((self._position >> INDEX_BITS) - 1, 0)
        self._purger = Purger(broker.streams, self.names, self.owned, self._done)

    def attach(self, native: NativeFlow, wired: WiredPlan) -> None:
        self.reader = native.node(wired.index(self.wired.reader))

    async def start(self) -> None:
        subjects = [self.names.filter(partition) for partition in self.owned]
        if self._owns_all:
            subjects = [f"{self.names.prefix}.>"]
        start = self._position >> INDEX_BITS
        self._consumer = OrderedReader(
            self._broker.broker, self.names.stream, subjects, start, self._receive, self._room_bytes
        )
        self._consumer.start()
        self._finish_if_ended()

    async def stop(self) -> None:
        """Deletes what is left to delete, if the broker answers."""
        if self._consumer is not None:
            await self._consumer.stop()
            await self._purger.finish()

    def _room_bytes(self) -> int:
        # The next run reads what comes behind the end.
        return 0 if self._ends.are_complete else WINDOW_BYTES - self.log.waiting[1]

    def _receive(self, message: StoredMessage) -> None:
        if self._ends.are_complete:
            return
        batch = BatchId.parse(message.id)
        if batch is not None and batch.is_end:
            self._supplied.append(_Supplied(message.sequence, batch, NO_ELEMENT))
            self._seen.add_end(batch)
            self._ends.add(batch)
            self._finish_if_ended()
            return
        # The last message before a crash may be settled in part: it is read again.
        is_continued = message.sequence == self._position >> INDEX_BITS
        if batch is None or not (self._seen.add(batch) or is_continued):
            self.repeated += 0 if batch is None else batch.elements
            self._supplied.append(_Supplied(message.sequence, None, NO_ELEMENT))
            return
        self._supply(message, batch)

    def _supply(self, message: StoredMessage, batch: BatchId) -> None:
        first = message.sequence << INDEX_BITS
        start = max(first, self._position + 1)
        # Before its elements: they may be settled before `supply` returns.
        self._supplied.append(_Supplied(message.sequence, batch, first + batch.elements - 1))
        try:
            lane = self.lane << LANE_SHIFT
            count = self.log.supply(message.body, lane + first, lane + start, is_backlog=False)
        except ValueError as error:
            self.corrupt += batch.elements
            self._supplied[-1] = _Supplied(message.sequence, batch, NO_ELEMENT)
            logger.error("`%s`: message %d is damaged: %s", self.name, message.sequence, error)
            return
        self.received += count
        if batch.generation != self.generation:
            self.from_before += count
        self.reader.wake()

    def _finish_if_ended(self) -> None:
        if self._ends.are_complete:
            self.log.finish()
            self.reader.wake()

    @property
    def is_idle(self) -> bool:
        return True

    def take(self) -> None:
        """An input has no writer."""

    def take_all(self) -> None:
        """An input has no writer."""

    def fail(self, message: str) -> None:
        """Ends the flow."""
        self.log.fail(message)
        self.reader.wake()

    def refill(self) -> None:
        """Asks the broker for more, if there is room, and makes room on the broker."""
        if self._consumer is None:
            return
        if self._room_bytes() > WINDOW_BYTES // 2:
            self._broker.soon(self._consumer.wake)
        self._advance()
        if self._changes == self._saved_changes:
            # Behind what is saved there are only messages that nobody needs.
            self._purger.done = self._done
        if self._purger.is_due:
            self._broker.soon(self._purger.start)
        self._tell_expired()

    def finish_if_drained(self) -> None:
        """The end of the stream comes from the broker."""

    @property
    def unnamed_writers(self) -> set[int]:
        """Writers that have ended without a name, which this run waits for. On the loop."""
        return self._ends.unnamed_writers

    # What has expired

    @property
    def expired(self) -> int:
        """Elements that the broker has deleted because they were older than `max_age`: the numbers
        of a series have no gaps. A batch that waits for room while others pass it counts until it
        comes. From any thread."""
        if self.options.max_age_s is None:
            return 0
        return max(self._seen.missing() - self._missing_before, 0)

    def expired_of(self, series: str, first: Mapping[int, int]) -> int:
        """How many of them a writer has sent since these numbers."""
        return 0 if self.options.max_age_s is None else self._seen.missing(series, first)

    def note_sent(self, writer: int, sent: Mapping[str, Mapping[str, int]]) -> None:
        """`sent`: by series of a writer and by partition, how many elements it had. On the loop,
        while the carrier thread waits."""
        for partition in self.owned:
            counts = {series: each.get(str(partition), 0) for series, each in sent.items()}
            self._seen.note_sent(writer, partition, counts)
            self._saved_seen.note_sent(writer, partition, counts)

    def _tell_expired(self) -> None:
        """Logs once what has expired together."""
        now_s = time.monotonic()
        if self.options.max_age_s is None or now_s < self._tell_at_s:
            return
        self._tell_at_s = now_s + TELL_S
        expired = self.expired
        if expired != self._expired_last:
            self._expired_last = expired
        elif expired > self._expired_told:
            text = "`%s`: the broker has deleted %d elements that were older than %g s"
            new = expired - self._expired_told
            logger.warning(text, self.name, new, self.options.max_age_s)
            self._expired_told = expired

    # What is settled

    def settle(self, runs: Sequence[tuple[int, int]]) -> None:
        """The elements of these runs, which come in order, need never be read again."""
        position = runs[-1][1] - (self.lane << LANE_SHIFT) if runs else 0
        if position > self._position:
            self._position = position
            self._changes += 1
        self._advance()

    def settle_all(self) -> None:
        """The flow has ended in order. What the stream has before its end is settled; if the flow
        has ended earlier, the next run reads on."""
        if self._is_over:
            return
        self._is_over = True
        self._advance(is_over=self._ends.are_complete)
        if self._ends.are_complete:
            self._saved_ends.use()
        self._changes += 1

    def _advance(self, *, is_over: bool = False) -> None:
        """Messages up to the position are done, and those without elements behind it."""
        supplied = self._supplied
        while supplied:
            sequence, batch, last = supplied[0]
            if last > self._position and not is_over:
                return
            if last < 0 or is_over:
                self._position = max(self._position, ((sequence + 1) << INDEX_BITS) - 1)
            supplied.popleft()
            self._done = sequence
            if batch is None:
                continue
            self._purger.touch(batch.partition, sequence)
            if batch.is_end:
                self._saved_seen.add_end(batch)
                self._changes += self._saved_ends.add(batch)
            else:
                self._changes += self._saved_seen.add(batch)

    def to_json(self) -> dict[str, Any]:
        """What the entry of the segment holds of this edge."""
        self._saving = (self._done, self._changes)
        return {
            "position": self._position,
            "seen": self._saved_seen.to_json(),
            "ends": self._saved_ends.to_json(),
        }

    def note_saved(self) -> None:
        """The entry with the last `to_json` is durable. On the loop."""
        self._purger.done, self._saved_changes = self._saving
        self._purger.start()
