"""The end of a `nats` edge that publishes: batches on their way to the broker.

One batch per subject is on its way at a time, so that a full subject keeps its order. Meanwhile
further elements collect, and the next batch is larger.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from torvyn._native import BatchReceipts, Bell, EdgeLog
from torvyn.jetstream import Confirmed, Message
from torvyn.jetstream.publisher import MESSAGE_ID, Outcome
from torvyn.reactor.carriers.nats.batch_ids import BatchId
from torvyn.reactor.carriers.nats.names import EdgeNames
from torvyn.reactor.carriers.wired_plan import DurableEdge

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.carriers.wired_plan import WiredPlan

BATCH_BYTES: Final = 256 * 1024
"""The most that a message of several elements has."""
BUFFER_BYTES: Final = 1024 * 1024
"""What waits in front of the broker before the writer pauses."""
FIRST_RETRY_S, LONGEST_RETRY_S = 0.001, 0.02
"""How long a full subject is left to its reader."""
HEAD_BYTES: Final = 2048
"""What a message and a batch of one element have besides its payload."""


@dataclass(frozen=True, slots=True)
class OwedBatch:
    """A batch that the broker has not confirmed yet."""

    message: Message
    count: int
    """Its elements; 0 at the end of a stream."""
    receipts: BatchReceipts | None
    is_from_before: bool = False
    """Whether an earlier process owed it already, and has counted its elements."""


@dataclass(slots=True)
class WriterIdentity:
    """Who writes: what the ids of batches begin with."""

    writer: int
    series: str
    generation: int
    run: str


class OutputEdge:
    """All methods but `published` are for the carrier thread."""

    def __init__(self, wired: DurableEdge, segment: int, names: EdgeNames) -> None:
        self.name = wired.log
        self.wired = wired
        self.names = names
        self.writer_segment: int | None = segment
        self.reader_segment: int | None = None
        self.options = wired.edge
        self.waits: list[OwedBatch] = []
        """Taken from the writer, and not on the broker yet."""
        self._waiting_bytes = 0
        self.refusals = 0
        """How often the broker was full."""
        self.confirmed = 0
        """Elements that the broker has confirmed."""
        self.next: dict[int, int] = {}
        self.first: dict[int, int] = {}
        """The numbers with which this process has begun."""
        self._turn = 0
        self._is_ended = False
        self._refused: dict[str, tuple[float, float]] = {}
        """By subject that is full: when it is tried again, and how long it waited."""

    def open(
        self,
        bell: Bell,
        pauses: bool,
        max_payload: int,
        identity: WriterIdentity,
        numbers: Mapping[str, int],
        key: Callable[[Any], str] | None,
        outbox: Iterable[Message] = (),
    ) -> None:
        most = max_payload - HEAD_BYTES
        self.log = EdgeLog(bell, 0, BUFFER_BYTES, most, pauses, min(BATCH_BYTES, most), key)
        self.identity = identity
        self.next = {int(partition): number for partition, number in numbers.items()}
        self.first = dict(self.next)
        self.waits, self._waiting_bytes = [], 0
        for message in outbox:
            batch = BatchId.parse(message.headers[MESSAGE_ID])
            assert batch is not None
            self.waits.append(OwedBatch(message, batch.elements, None, is_from_before=True))
            self._waiting_bytes += len(message.body)

    def attach(self, native: NativeFlow, wired: WiredPlan) -> None:
        self.writer = native.node(wired.index(self.wired.writer))

    @property
    def is_idle(self) -> bool:
        return not self.log.pending[0] and not self.waits

    def take(self) -> None:
        """Takes what waits, unless the broker is far behind: then the writer pauses."""
        if self.log.pending[0] and self._waiting_bytes < BUFFER_BYTES:
            self.take_all()

    def take_all(self) -> None:
        while (taken := self.log.take()) is not None:
            _, count, _, body, receipts, key = taken
            partition = self._partition(key)
            first = self.next.get(partition, 0)
            self.next[partition] = first + count
            who = self.identity
            batch = BatchId(who.writer, who.series, f"g{who.generation}", partition, first, count)
            subject = self.names.subject(partition, key)
            message = Message(subject, body, {MESSAGE_ID: str(batch)})
            self.waits.append(OwedBatch(message, count, receipts))
            self._waiting_bytes += len(body)
        self.writer.resume()

    def _partition(self, key: str | None) -> int:
        if key is not None:
            return self.names.partition(key)
        # Elements without a key are shared out batch by batch.
        self._turn = (self._turn + 1) % self.names.partitions
        return self._turn

    def due(self) -> list[OwedBatch]:
        """What can be published now: the first batch of every subject. The end of a stream comes
        behind all that is before it, and before all that is behind it."""
        first: dict[str, OwedBatch] = {}
        now_s = time.monotonic() if self._refused else 0.0
        for batch in self.waits:
            if bool(batch.count) != bool(self.waits[0].count):
                break
            subject = batch.message.subject
            if subject not in self._refused or self._refused[subject][0] <= now_s:
                first.setdefault(subject, batch)
        return list(first.values())

    @property
    def retry_in_s(self) -> float:
        """When a full subject is tried again."""
        if not self._refused:
            return math.inf
        first_s = min(at_s for at_s, _ in self._refused.values())
        return max(first_s - time.monotonic(), 0.0005)

    def published(self, outcomes: Iterable[tuple[OwedBatch, Outcome]]) -> None:
        """Settles the batches that the broker has confirmed. A full subject waits, longer each
        time."""
        done = set()
        for batch, outcome in outcomes:
            subject = batch.message.subject
            _, waited_s = self._refused.pop(subject, (0.0, 0.0))
            if isinstance(outcome, Confirmed):
                done.add(id(batch))
            elif outcome.is_full:
                self.refusals += 1
                delay_s = min(max(2 * waited_s, FIRST_RETRY_S), LONGEST_RETRY_S)
                self._refused[subject] = (time.monotonic() + delay_s, delay_s)
        left = []
        for batch in self.waits:
            if id(batch) not in done:
                left.append(batch)
                continue
            self.confirmed += 0 if batch.is_from_before else batch.count
            self._waiting_bytes -= len(batch.message.body)
            if batch.receipts is not None:
                batch.receipts.settle()
        self.waits = left

    def fail(self, message: str) -> None:
        """Ends the flow."""
        self.log.fail(message)
        self.writer.resume()

    def refill(self) -> None:
        """An output has no reader."""

    def finish_if_drained(self, *, is_last: bool = False) -> None:
        """Says that the stream has ended, once everything before it is on the broker. `is_last`:
        what waits is published before it."""
        if self._is_ended or not self.log.is_closed or not (is_last or self.is_idle):
            return
        self._is_ended = True
        who = self.identity
        for partition in range(self.names.partitions):
            first = self.next.get(partition, 0)
            batch = BatchId(who.writer, who.series, who.run, partition, first, 0)
            subject = self.names.end_subject(partition, who.writer)
            message = Message(subject, b"", {MESSAGE_ID: str(batch)})
            self.waits.append(OwedBatch(message, 0, None))
