"""Makes the progress of all segments of a process durable on the broker.

It has the methods of the committer of disk edges. A segment that is saved by cuts writes its entry,
publishes what the entry owes, and then makes room upstream. The others publish at once; how far
they have read is saved every few milliseconds. How much waits, and whether the streams of a flow
are still there, is asked every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from torvyn._durable.disk.backend import SETTLE_S, Cut, Runs
from torvyn._durable.nats.edges import InputEdge, OutputEdge
from torvyn._durable.nats.entry import SegmentEntry, WriterEntries
from torvyn._durable.state_log import Checkpoint
from torvyn._io.connection import Connection
from torvyn._io.event_loop import end_task
from torvyn._io.jetstream import BrokerThread, Streams
from torvyn._io.nats import BrokerUnavailable, Message, Refused
from torvyn._io.restart import keep_task_running

CUT_S: Final = 0.003
"""The shortest time between two cuts of a segment, when its elements wait for them."""
NAP_S: Final = 0.005
CHECK_S: Final = 2.0
"""How often a segment that writes no entries makes sure that no other process runs it."""
FULL_S: Final = 0.02
"""How often a cut is looked at whose batches wait for room on the broker."""


class NatsCommitter:
    """All methods raise `BrokerUnavailable`: what was not confirmed is tried again."""

    cut_s: float = CUT_S
    read_cut_s: float = SETTLE_S
    is_patient = True
    longest_retry_s = 0.5
    """A broker that elects a leader is back within seconds."""

    def __init__(
        self,
        outputs: Sequence[OutputEdge],
        inputs: Sequence[InputEdge],
        entries: Sequence[SegmentEntry],
        broker: BrokerThread,
        by_checkpoint: Sequence[bool],
        origins: Mapping[str, Mapping[str, Any]],
        writers: WriterEntries,
    ) -> None:
        """`origins`: by input, what is saved with its position."""
        self._writers = writers
        self._outputs, self._inputs = outputs, inputs
        self._origins = origins
        self._entries = entries
        self._broker = broker
        self._by_checkpoint = by_checkpoint
        self._runs: dict[str, Runs] = {}
        self._saved_at_s = self._checked_at_s = time.monotonic()
        self._entered: dict[int, Cut] = {}
        """By segment: the cut whose entry is written, and whose batches may not be published."""
        self.check_broker: Callable[[], None] = lambda: None
        """Raises what ends the flow, whatever else fails."""
        self.commits = 0
        self._confirmed = 0
        self._is_full = False
        # Where nothing is published, no element waits for the carrier.
        self.nap_s = 0.0 if outputs else NAP_S

    # What the thread of the carrier asks

    def pause_left_s(self) -> float:
        """Nothing is gained by waiting: what comes meanwhile is in the next batch."""
        return 0.0

    @property
    def retry_in_s(self) -> float:
        return FULL_S if self._is_full else 1.0

    def begin(self) -> None:
        """The broker expires what is too old."""

    def set_clock(self, offset_ns: int) -> None:
        for log in [edge.log for edge in self._outputs] + [edge.log for edge in self._inputs]:
            log.set_offset(offset_ns)

    def follow_clock(self) -> None:
        """The clocks of machines differ: times are those of the machine that wrote them."""

    @property
    def has_settled(self) -> bool:
        return bool(self._runs)

    def collect_settled(self) -> None:
        # What leaves by itself is committed without this thread.
        if (confirmed := sum(edge.confirmed for edge in self._outputs)) != self._confirmed:
            self._confirmed = confirmed
            self.commits += 1
        for edge in self._inputs:
            if runs := edge.log.take_settled():
                self._runs.setdefault(edge.name, []).extend(runs)

    # Commits

    def commit_settled(self, *, at_once: bool = False) -> None:
        """Saves how far the segments have read that are not saved by cuts."""
        is_due = at_once or time.monotonic() - self._saved_at_s >= SETTLE_S
        if not self._runs or not is_due:
            return
        segments = set()
        for edge in self._inputs:
            if edge.name in self._runs:
                edge.settle(self._runs[edge.name])
                segments.add(edge.reader_segment)
        for segment in segments:
            if segment is not None:
                self._call(segment, {})
        self._runs = {}
        self._saved_at_s = time.monotonic()

    def commit_batches(
        self, edges: Sequence[OutputEdge], checkpoint: Checkpoint | None = None
    ) -> None:
        """Sees that what waits on these edges leaves, or saves the states of acknowledged
        sources."""
        if checkpoint is not None:
            names = [entry.segment for entry in self._entries]
            self._call(names.index(checkpoint.segment), {"change": checkpoint})
        for edge in edges:
            edge.check()
        self.commit_settled()

    def commit_cut(
        self, cut: Cut, edges: Sequence[OutputEdge], checkpoint: Checkpoint | None
    ) -> None:
        """Saves a segment at rest; then its batches are published, and what it has read is deleted.
        After a failure it continues where it was."""
        if self._entered.get(cut.segment) is not cut:
            has_work = any(cut.runs.values()) or any(edge.waits for edge in edges)
            if checkpoint is None and not has_work:
                return
            self._settle(cut)
            self._call(cut.segment, _progress(cut, edges))
            self._entered[cut.segment] = cut
        if full := self._publish(edges):
            raise full
        self._entered.pop(cut.segment, None)

    def commit_end(self, cut: Cut, edges: Sequence[OutputEdge]) -> None:
        """The stream of a segment has ended in order: the next run begins behind it."""
        self._settle(cut)
        for edge in edges:
            edge.finish_if_drained(is_last=True)
        self._end(cut.segment, _progress(cut, edges))
        if full := self._publish(edges):
            raise full

    def commit_over(self, is_completed: bool) -> None:
        """The flow has ended. If it has ended in order, the segments that are not saved by cuts
        say so. What is published is not owed any more."""
        for segment, by_checkpoint in enumerate(self._by_checkpoint):
            if is_completed and not by_checkpoint:
                self._end_plain(segment)
        for segment, entry in enumerate(self._entries):
            self._save_sent(segment)
            if entry.saved.outbox and not any(edge.waits for edge in self._written_by(segment)):
                self._broker.call(entry.save(replace(entry.saved, outbox=())))

    def _end_plain(self, segment: int) -> None:
        edges = self._written_by(segment)
        for edge in edges:
            edge.finish_if_drained(is_last=True)
        if full := self._publish(edges):
            raise full
        self._end(segment, {})

    def publish_owed(self) -> None:
        """Publishes what an earlier process owed, as its readers make room."""
        while self._publish(self._outputs) is not None:
            time.sleep(self.retry_in_s)

    def _written_by(self, segment: int) -> list[OutputEdge]:
        return [edge for edge in self._outputs if edge.writer_segment == segment]

    def _settle(self, cut: Cut) -> None:
        for edge in self._inputs:
            if edge.name in cut.runs:
                edge.settle(cut.runs[edge.name])

    def _end(self, segment: int, changes: Mapping[str, Any]) -> None:
        self._broker.call(self._writers.note_sent())
        for edge in self._inputs:
            if edge.reader_segment == segment:
                edge.settle_all()
        self._call(segment, {**changes, "ended": self._entries[segment].saved.run})

    def tidy(self) -> None:
        """Makes sure that no other process runs the same segments, and that the writers of what
        they read belong to their run."""
        self.check_broker()
        if time.monotonic() - self._checked_at_s < CHECK_S:
            return
        self._checked_at_s = time.monotonic()
        for segment, entry in enumerate(self._entries):
            if not self._save_sent(segment):
                self._broker.call(entry.check())
        self._broker.call(self._writers.check_runs())
        self._broker.call(self._writers.note_sent())
        self._broker.call(self._writers.note_lost_ends())

    def _save_sent(self, segment: int) -> bool:
        """Saves what a segment that begins a new series with every start has sent, for a reader
        that finds nothing of it; False if there is nothing new."""
        entry = self._entries[segment]
        saved = entry.saved
        for edge in self._written_by(segment):
            if edge.options.max_age_s is not None and not self._by_checkpoint[segment]:
                saved = saved.with_sent(edge.name, edge.identity.series, edge.sent)
        if saved == entry.saved:
            return False
        self._broker.call(entry.save(saved))
        return True

    # The broker

    def _call(self, segment: int, changes: Mapping[str, Any]) -> None:
        self._broker.call(self._save(segment, changes))
        self.commits += 1

    async def _save(self, segment: int, changes: Mapping[str, Any]) -> None:
        inputs = [edge for edge in self._inputs if edge.reader_segment == segment]
        entry = self._entries[segment]
        positions = {edge.name: {**edge.to_json(), **self._origins[edge.name]} for edge in inputs}
        if entry.saved.outbox and "outbox" not in changes:
            changes = {**changes, "outbox": self._owed(segment)}
        others = {name: each for name, each in changes.items() if name != "change"}
        saved = replace(entry.saved, inputs=positions, **others)
        if (change := changes.get("change")) is not None:
            saved = saved.with_change(change)
        await entry.save(saved)
        for edge in inputs:
            edge.note_saved()

    def _owed(self, segment: int) -> list[Message]:
        """What is left of the batches that an earlier process owed."""
        edges = self._written_by(segment)
        return [message for edge in edges for message in edge.owed(is_from_before=True)]

    def _publish(self, edges: Sequence[OutputEdge]) -> BrokerUnavailable | None:
        """Publishes what waits. Returns an error if a subject is full: its batches stay."""
        full = None
        for edge in edges:
            full = edge.publish() or full
        self._is_full = full is not None
        self.commits += 1
        return full


def _progress(cut: Cut, edges: Iterable[OutputEdge]) -> dict[str, Any]:
    """What the entry of a segment holds besides its positions."""
    return {
        "change": cut.checkpoint,
        "next": {edge.name: edge.next for edge in edges},
        "outbox": [message for edge in edges for message in edge.owed()],
    }


INTERVAL_S: Final = 2.0
LOOKS: Final = 2
"""A stream that is missing so many times in a row was deleted: a broker that has just started may
not know it yet."""


class StreamFigures:
    """`of` and `gone` are for any thread, the coroutines are for the loop."""

    def __init__(
        self, streams: Streams, created: Mapping[str, str], connection: Connection
    ) -> None:
        """`created`: when each stream was made."""
        self._streams, self._created = streams, dict(created)
        self.connection: Final = connection
        self._found: dict[str, tuple[int, int]] = {}
        self._missing: dict[str, int] = {}
        self.gone: str | None = None
        """A stream that was deleted, and perhaps made again."""
        self._task: asyncio.Task[None] | None = None

    def of(self, stream: str) -> tuple[int | None, int | None]:
        """Messages and bytes, as they were last seen; None if they are not known."""
        return self._found.get(stream, (None, None))

    async def start(self) -> None:
        work = keep_task_running(self._run, self._forget)
        self._task = asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        """Looks for the last time, if the broker answers."""
        if self._task is not None:
            await end_task(self._task)
            await self._look()

    def _forget(self, _: str) -> None:
        """Old figures must not look like new ones."""
        self._found.clear()

    async def _run(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(INTERVAL_S)

    async def _look(self) -> None:
        with contextlib.suppress(BrokerUnavailable, Refused):
            for name, created in sorted(self._created.items()):
                state = await self._streams.state(name)
                missing = 0 if state is not None else self._missing.get(name, 0) + 1
                self._missing[name] = missing
                if missing >= LOOKS or (state is not None and state.created != created):
                    self.gone = name
                elif state is not None:
                    self._found[name] = (state.messages, state.bytes)
