"""The end of a `nats` edge that reads: messages of the broker become elements of the flow.

Native code reads the messages, leaves out what has come before, and supplies the flow. An element's
sequence number is that of its message in the stream, and its index there: the same in every run.
Elements of several edges into a segment differ by the number of their edge.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from torvyn._native import Bell, EdgeLog, NatsInput
from torvyn.reactor.carriers.nats.batch_ids import BatchId
from torvyn.reactor.carriers.nats.names import EdgeNames
from torvyn.reactor.carriers.nats.purger import Purger
from torvyn.reactor.carriers.nats.refusals import server_too_old
from torvyn.reactor.carriers.nats.run_ends import RunEnds
from torvyn.reactor.carriers.wired_plan import DurableEdge

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.carriers.nats.broker_thread import BrokerThread
    from torvyn.reactor.carriers.wired_plan import WiredPlan

logger = logging.getLogger("torvyn.durable")

FILTERS_VERSION: Final = (2, 10)
"""The first version of the server that reads several subjects of a stream in order."""
LANE_SHIFT: Final = 56
TELL_S: Final = 1.0
"""What expires within this time is logged together."""


class InputEdge:
    """`start`, `stop` and `note_saved` are for the loop, the other methods for the carrier
    thread."""

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
        self.lane = 0
        """Which of the edges into the segment it is."""
        self.generation = ""
        """That of the writer in this process, if it is here."""
        self._is_started = False
        self._end_changes = self._saved_changes = 0
        """How many ends were settled, and what of all that was settled the entry holds."""
        self._saving = (0, 0)
        self._is_over = False
        self._misses_ends = False
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
        self.log = EdgeLog(Bell(), 0, 0, 0, False)
        self._broker = broker
        saved = saved or {"position": 0, "seen": None, "ends": None}
        self._ends = RunEnds(self._expected, run, saved["ends"])
        self._saved_ends = RunEnds(self._expected, run, saved["ends"])
        # Nothing that native code calls refers to this edge, which could not be freed then.
        self._native = NatsInput(
            self.log,
            bell,
            position=saved["position"],
            seen=saved["seen"],
            generation=self.generation,
            number=self.lane << LANE_SHIFT,
            ignores_start=is_fresh,
            on_end=partial(_note_end, self._ends),
            on_damage=partial(logger.error, "`%s`: message %d is damaged: %s", self.name),
            on_refusal=_RefusalLog(self.name),
        )
        self._missing_before = self._native.missing()
        self._purger = Purger(broker.streams, self.names, self.owned, self._native.done)

    def attach(self, native: NativeFlow, wired: WiredPlan) -> None:
        self.reader = native.node(wired.index(self.wired.reader))
        self._native.attach(self.reader)

    async def start(self, created: str) -> None:
        """`created`: when the stream was made, which must not be another one."""
        subjects = [self.names.filter(partition) for partition in self.owned]
        if self._owns_all:
            subjects = [f"{self.names.prefix}.>"]
        self._is_started = True
        if self._ends.are_complete:
            self._native.finish()
        self._native.start(self._broker.data, self.names.stream, created, subjects)

    async def stop(self) -> None:
        """Deletes what is left to delete, if the broker answers."""
        if self._is_started:
            self._native.stop()
            await self._purger.finish()

    # Elements, for statistics

    @property
    def received(self) -> int:
        return self._native.counts[0]

    @property
    def from_before(self) -> int:
        """Those that an earlier process has written."""
        return self._native.counts[1]

    @property
    def repeated(self) -> int:
        return self._native.counts[2]

    @property
    def corrupt(self) -> int:
        return self._native.counts[3]

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
        """Makes room on the broker."""
        if not self._is_started:
            return
        self._advance()
        if self._changes() == self._saved_changes:
            # Behind what is saved there are only messages that nobody needs.
            self._purger.done = self._native.done
        if self._purger.is_due:
            self._broker.soon(self._purger.start)
        self._tell_expired()

    def finish_if_drained(self) -> None:
        """The end of the stream comes from the broker."""

    @property
    def is_caught_up(self) -> bool:
        """Whether it has read everything that the stream has."""
        return self._native.is_caught_up

    async def stored_ends(self, writer: int) -> set[int]:
        """The partitions in which an end of the writer waits."""
        pattern = f"{self.names.prefix}.*.$end-{writer}"
        found = await self._broker.streams.subjects(self.names.stream, pattern)
        return {int(subject.split(".")[-2]) for subject in found}

    def missing_ends(self, writer: int, run: str) -> list[int]:
        """The partitions of which the end of a writer in that run has not come. On the loop."""
        return [part for part in self.owned if self._ends.is_missing(writer, part, run)]

    def note_lost_end(self, writer: int, series: str, run: str, partition: int, sent: int) -> None:
        """The writer has ended, and the message that says so is gone. `sent`: how many elements of
        the series it has sent; 0 if that is not known. On the loop."""
        self._misses_ends = True
        self._native.note_lost_end(writer, series, run, partition, sent)

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
        if not self._counts_missing:
            return 0
        return max(self._native.missing() - self._missing_before, 0)

    def expired_of(self, series: str, first: Mapping[int, int]) -> int:
        """How many of them a writer has sent since these numbers."""
        return self._native.missing(series, dict(first)) if self._counts_missing else 0

    @property
    def _counts_missing(self) -> bool:
        """Without a `max_age` nothing is missing, unless somebody has deleted it."""
        return self.options.max_age_s is not None or self._misses_ends

    def note_sent(self, writer: int, sent: Mapping[str, Mapping[str, int]]) -> None:
        """`sent`: by series of a writer and by partition, how many elements it had. On the loop,
        while the carrier thread waits."""
        for partition in self.owned:
            counts = {series: each.get(str(partition), 0) for series, each in sent.items()}
            self._native.note_sent(writer, partition, counts)

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
        if runs:
            self._native.settle(runs[-1][1] - (self.lane << LANE_SHIFT))
        self._advance()

    def settle_all(self) -> None:
        """The flow has ended in order. What the stream has before its end is settled; if the flow
        has ended earlier, the next run reads on."""
        if self._is_over:
            return
        self._is_over = True
        # Once: the last end may come meanwhile.
        are_complete = self._ends.are_complete
        self._advance(is_over=are_complete)
        if are_complete:
            self._saved_ends.use()
        self._end_changes += 1

    def _advance(self, *, is_over: bool = False) -> None:
        """Messages up to the position are done, and those without elements behind it."""
        ends, touched = self._native.advance(is_over)
        for partition, sequence in touched:
            self._purger.touch(partition, sequence)
        for end in ends:
            self._end_changes += self._saved_ends.add(BatchId(*end, 0))

    def _changes(self) -> int:
        return self._native.changes + self._end_changes

    def to_json(self) -> dict[str, Any]:
        """What the entry of the segment holds of this edge."""
        self._saving = (self._native.done, self._changes())
        return {
            "position": self._native.position,
            "seen": self._native.saved(),
            "ends": self._saved_ends.to_json(),
        }

    def note_saved(self) -> None:
        """The entry with the last `to_json` is durable. On the loop."""
        self._purger.done, self._saved_changes = self._saving
        self._purger.start()


def _note_end(
    ends: RunEnds, writer: int, series: str, run: str, partition: int, first: int
) -> bool:
    """Whether the run is over. From the thread that reads."""
    ends.add(BatchId(writer, series, run, partition, first, 0))
    return ends.are_complete


class _RefusalLog:
    """Logs once why the server lets nobody read: it is asked again and again."""

    def __init__(self, edge: str) -> None:
        self._edge = edge
        self._logged = ""

    def __call__(self, reason: str) -> None:
        if reason != self._logged:
            self._logged = reason
            logger.warning("`%s` cannot be read now: %s", self._edge, reason)
