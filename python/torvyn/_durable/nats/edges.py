"""The two ends of a `nats` edge, and what happens on the broker between them.

The end that reads makes messages of the broker elements of the flow: native code reads them, leaves
out what has come before, and supplies the flow. An element's sequence number is that of its message
in the stream, and its index there: the same in every run. Elements of several edges into a segment
differ by the number of their edge.

The end that publishes: native code numbers, publishes and retries the batches. Those of a segment
that is saved by cuts wait until its entry is written; the others leave by themselves, without a
step in Python.

What was read and saved is deleted, which makes room for the writer. A purge that fails is repeated
until it is done: otherwise a writer would wait for room on an edge where everything is read.

A writer says once per run and partition that it has ended. The run of a reader that has a name ends
with the ends of that name; those of other runs mean nothing to it. Without a name, the n-th run of
a reader ends with the n-th end of every writer: one that comes early is kept for the next run.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from torvyn._durable.nats.failures import server_too_old
from torvyn._durable.nats.names import BatchId, EdgeNames
from torvyn._durable.segments import DurableEdge
from torvyn._io.jetstream import Streams
from torvyn._io.nats import ALONE, MESSAGE_ID, BrokerUnavailable, Message, Refused
from torvyn._native import Bell, EdgeLog, NatsInput, NatsOutput

if TYPE_CHECKING:
    from torvyn._durable.segments import WiredPlan
    from torvyn._io.jetstream import BrokerThread
    from torvyn._native import NativeFlow

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


BATCH_BYTES: Final = 256 * 1024
"""The most that a message of several elements has."""
BUFFER_BYTES: Final = 1024 * 1024
"""What waits in front of the broker before the writer pauses."""
HEAD_BYTES: Final = 2048
"""What a message and a batch of one element have besides its payload."""


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Who writes: what the ids of batches begin with."""

    writer: int
    series: str
    generation: int
    run: str


class OutputEdge:
    """For the carrier thread."""

    def __init__(self, wired: DurableEdge, segment: int, names: EdgeNames) -> None:
        self.name = wired.log
        self.wired = wired
        self.names = names
        self.writer_segment: int | None = segment
        self.reader_segment: int | None = None
        self.options = wired.edge
        self.first: dict[int, int] = {}
        """The numbers with which this process has begun."""
        self._is_ended = False
        self._is_last = False

    def open(
        self,
        bell: Bell,
        broker: BrokerThread,
        identity: WriterIdentity,
        numbers: Mapping[str, int],
        key: Callable[[Any], str] | None,
        field: str | None,
        *,
        is_cut: bool,
        outbox: Iterable[Message] = (),
    ) -> None:
        """`field`: of JSON objects, which may be the key; `is_cut`: its batches wait for the entry
        of their segment."""
        self._broker = broker
        most = broker.broker.max_payload - HEAD_BYTES
        log_bell = bell if is_cut else Bell()
        batch_bytes = min(BATCH_BYTES, most)
        self.log = EdgeLog(log_bell, 0, BUFFER_BYTES, most, not is_cut, batch_bytes, key, field)
        self.identity = identity
        self.first = {int(partition): number for partition, number in numbers.items()}
        self._native = NatsOutput(
            broker.data,
            self.log,
            bell,
            takes=not is_cut,
            prefix=self.names.prefix,
            partitions=self.names.partitions,
            writer=identity.writer,
            series=identity.series,
            generation=f"g{identity.generation}",
            run=identity.run,
            next=self.first,
            outbox=[(each.subject, each.headers[MESSAGE_ID], each.body) for each in outbox],
        )

    def attach(self, native: NativeFlow, wired: WiredPlan) -> None:
        self.writer = native.node(wired.index(self.wired.writer))
        self._native.attach(self.writer)

    @property
    def waits(self) -> int:
        """How many batches were taken from the writer, and are not on the broker yet."""
        return len(self._native)

    @property
    def is_idle(self) -> bool:
        return not self.log.pending[0] and not self.waits

    @property
    def next(self) -> dict[int, int]:
        """The next number of each partition."""
        return self._native.next

    @property
    def sent(self) -> dict[int, int]:
        """By partition: up to which number the broker has everything."""
        return self._native.sent

    @property
    def confirmed(self) -> int:
        """Elements that the broker has confirmed."""
        return self._native.confirmed

    @property
    def refusals(self) -> int:
        """How often the broker was full."""
        return self._native.refusals

    def owed(self, *, is_from_before: bool = False) -> list[Message]:
        """The batches that wait, in their order; `is_from_before`: those of an earlier process."""
        owed = self._native.owed(is_from_before=is_from_before)
        return [Message(subject, body, {MESSAGE_ID: identity}) for subject, identity, body in owed]

    def take(self) -> None:
        """What waits is taken by itself."""

    def take_all(self) -> None:
        """Takes everything: for a cut, or because the flow has ended."""
        self._native.take_all()
        self._is_last = True

    def publish(self) -> BrokerUnavailable | None:
        """Publishes what waits, and waits for the broker. Returns an error if a subject is full:
        its batches stay, and are tried again by themselves."""
        self._native.release()
        outcome, text = self._native.wait(ALONE.answer_s)
        if outcome == "full":
            return BrokerUnavailable(f"`{self.name}` is full on the broker", is_full=True)
        if outcome == "refused":
            raise self._refusal(text)
        if outcome == "away":
            raise BrokerUnavailable(f"{self._broker.broker.address} confirms nothing")
        return None

    def check(self) -> None:
        """Raises if what leaves by itself cannot leave now. At the end of the flow, waits for
        it."""
        if self._is_last:
            self.publish()
        elif (text := self._native.failure) is not None:
            raise self._refusal(text)
        elif self.waits and not self._broker.data.is_connected:
            raise BrokerUnavailable(f"no connection to {self._broker.broker.address}")

    def _refusal(self, text: str) -> BrokerUnavailable:
        return BrokerUnavailable(f"the broker refuses a batch of `{self.name}`: {text}")

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
        self._native.add_end()

    def stop(self) -> None:
        self._native.stop()


RETRY_S: Final = 0.25


class Purger:
    """One purge at a time: the next one takes along what was settled meanwhile."""

    def __init__(self, streams: Streams, names: EdgeNames, owned: Sequence[int], done: int) -> None:
        self._streams, self._names = streams, names
        self._owns_all = len(owned) == names.partitions
        self.done = done
        """The last message that nobody needs any more. An earlier run may have failed to delete
        it."""
        self._purged = 0
        self._touched: dict[int, int] = dict.fromkeys(owned, done)
        """By partition: its last message that was settled."""
        self._emptied: dict[int, int] = {}
        """By partition: its last message that was deleted."""
        self._task: asyncio.Task[None] | None = None
        self._retry_at_s = 0.0

    def touch(self, partition: int, sequence: int) -> None:
        if not self._owns_all:
            self._touched[partition] = sequence

    @property
    def is_due(self) -> bool:
        is_running = self._task is not None and not self._task.done()
        return self.done > self._purged and not is_running and time.monotonic() >= self._retry_at_s

    # On the loop

    def start(self) -> None:
        if self.is_due:
            self._task = asyncio.get_running_loop().create_task(self._purge())

    async def finish(self) -> None:
        """Deletes the rest, if the broker answers."""
        if self._task is not None:
            await self._task
        await self._purge()

    async def _purge(self) -> None:
        try:
            while (done := self.done) > self._purged:
                await self._purge_up_to(done)
                self._purged = done
        except (BrokerUnavailable, Refused) as error:
            self._retry_at_s = time.monotonic() + RETRY_S
            text = "`%s`: what was read is not deleted yet: %s"
            logger.debug(text, self._names.stream, error)
        except (Exception, SystemExit):
            self._retry_at_s = time.monotonic() + RETRY_S
            logger.exception("`%s`: what was read could not be deleted", self._names.stream)

    async def _purge_up_to(self, done: int) -> None:
        if self._owns_all:
            await self._streams.purge(self._names.stream, below=done + 1)
            return
        for partition, last in list(self._touched.items()):
            if last > self._emptied.get(partition, 0):
                subject = self._names.filter(partition)
                await self._streams.purge(self._names.stream, below=done + 1, subject=subject)
                self._emptied[partition] = min(last, done)


RUNS_KEPT: Final = 4
"""How many runs of a writer are remembered, so that an end that comes twice counts once."""
_UNNAMED: Final = "~"
"""What the id of a run begins with that has no name. No name has this character."""


def new_run() -> str:
    """The id of a run without a name."""
    return f"{_UNNAMED}{secrets.token_hex(4)}"


def has_name(run: str) -> bool:
    return not run.startswith(_UNNAMED)


class RunEnds:
    def __init__(
        self, expected: Iterable[tuple[int, int]], run: str, saved: dict[str, Any] | None = None
    ) -> None:
        """`expected`: writers and partitions; `run`: the name of the run, if it has one."""
        saved = saved or {"runs": {}, "early": {}}
        self._run = run
        self._expected = [_key(writer, partition) for writer, partition in expected]
        self._runs: dict[str, list[str]] = {key: list(runs) for key, runs in saved["runs"].items()}
        """The last runs that have ended, by writer and partition."""
        self._early: dict[str, int] = dict(saved["early"])
        """Ends that no run of the reader has used, if its runs or those of the writers have no
        names."""
        self._missing = {key for key in self._expected if not self._has_ended(key)}

    def _has_ended(self, key: str) -> bool:
        return self._run in self._runs.get(key, ()) if self._run else key in self._early

    @property
    def are_complete(self) -> bool:
        return not self._missing

    def add(self, batch: BatchId) -> bool:
        """Notes the end of a writer; False if it has come before."""
        key = _key(batch.writer, batch.partition)
        runs = self._runs.setdefault(key, [])
        if batch.generation in runs:
            return False
        runs.append(batch.generation)
        del runs[:-RUNS_KEPT]
        if not (self._run and has_name(batch.generation)):
            self._early[key] = self._early.get(key, 0) + 1
        if self._has_ended(key):
            self._missing.discard(key)
        return True

    def is_missing(self, writer: int, partition: int, run: str) -> bool:
        """Whether the reader waits for the end of that run of a writer."""
        key = _key(writer, partition)
        return key in self._missing and run not in self._runs.get(key, ())

    @property
    def unnamed_writers(self) -> set[int]:
        """The writers that have ended without a name, while their ends with one are missing."""
        keys = self._missing & self._early.keys() if self._run else set()
        return {int(key.partition(".")[0]) for key in keys}

    def use(self) -> None:
        """The run of the reader is over: the next one needs other ends."""
        if self._run:
            self._early.clear()
            return
        left = {key: self._early[key] - 1 for key in self._expected}
        self._early = {key: count for key, count in {**self._early, **left}.items() if count}

    def to_json(self) -> dict[str, Any]:
        return {"runs": self._runs, "early": self._early}


def _key(writer: int, partition: int) -> str:
    return f"{writer}.{partition}"
