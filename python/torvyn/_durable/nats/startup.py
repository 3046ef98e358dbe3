"""One run of the segments of a flow that are in this process: its connection, streams and checks.

The stream of an edge has the partitions that the replicas of its readers share. With another number
of replicas, a partition belongs to another replica, which has neither its position nor the states
of its keys: what is saved must fit the flow as it is now.

For a start with `--fresh`, what a writer has sent in earlier runs is discarded. Replicas that write
to one edge start one after another, and each deletes its own batches only: one that starts later
must not delete what an earlier one has sent in the new run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from torvyn._contract.element import Context, Element
from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute
from torvyn._durable.committer import CarrierThread
from torvyn._durable.durable_run import DurableRun
from torvyn._durable.nats.backend import NatsCommitter, StreamFigures
from torvyn._durable.nats.edges import InputEdge, OutputEdge, WriterIdentity
from torvyn._durable.nats.entry import (
    Saved,
    SavedSegments,
    SegmentEntry,
    WriterEntries,
    announce,
    open_bucket,
)
from torvyn._durable.nats.failures import (
    bucket_gone,
    partitions_changed,
    refused,
    replicas_changed,
    run_over,
    stream_gone,
    writers_changed,
)
from torvyn._durable.nats.names import PARTITIONS_PER_REPLICA, BatchId, FlowNames, token
from torvyn._durable.segments import WiredPlan, restrict, shape_changed, wire
from torvyn._io.jetstream import (
    BrokerThread,
    Entries,
    MessageList,
    Streams,
    StreamSpec,
    StreamState,
)
from torvyn._io.nats import OPEN_TIMEOUT_S, BrokerUnavailable, BrokerWait, Refused
from torvyn._link.key_reader import key_reader, simple_field
from torvyn._link.plan import ClusterPlan, EdgePlan, Plan, Segment, segments_of
from torvyn.errors import FlowError, InvalidInput

if TYPE_CHECKING:
    from torvyn._durable.checkpoint import StateHolder
    from torvyn._native import NativeFlow

Edge = InputEdge | OutputEdge


def open_streams(
    broker: BrokerThread, edges: Sequence[Edge], cluster: ClusterPlan, *, is_fresh: bool
) -> dict[str, StreamState]:
    """Makes the streams that are missing, and again those that have other partitions: that is
    possible only if nothing waits there, or nothing of it is wanted."""
    by_stream = {edge.names.stream: edge for edge in edges}
    other = []
    for stream, edge in by_stream.items():
        found = broker.call(broker.streams.state(stream))
        if found is None or found.description == _description(edge):
            continue
        if found.messages and not is_fresh:
            raise partitions_changed(edge.name, found.messages)
        other.append(stream)
    for stream in other:
        broker.call(broker.streams.delete(stream))
    return {stream: _ensure(broker, edge, cluster) for stream, edge in by_stream.items()}


def _description(edge: Edge) -> str:
    return f"torvyn: {edge.names.partitions} partitions"


def _ensure(broker: BrokerThread, edge: Edge, cluster: ClusterPlan) -> StreamState:
    plan, names = edge.wired.edge, edge.names
    spec = StreamSpec(
        name=names.stream,
        subjects=(f"{names.prefix}.*.*",),
        max_per_subject=plan.max_waiting,
        max_bytes=plan.max_bytes,
        max_age_s=plan.max_age_s,
        duplicate_window_s=cluster.duplicate_window_s,
        replicas=cluster.stream_replicas,
        description=_description(edge),
    )
    try:
        return broker.call(broker.streams.ensure(spec))
    except Refused as error:
        raise refused(edge.name, error, cluster.stream_replicas) from error


def origin(edge: InputEdge, state: StreamState) -> dict[str, Any]:
    """What the numbers and the ends of an edge depend on, as it is saved with them."""
    return {
        "created": state.created,
        "partitions": edge.names.partitions,
        "writers": edge.writers,
    }


class SavedChecks:
    """All methods are for the loop."""

    def __init__(
        self, entries: Entries, streams: Streams, names: FlowNames, max_payload: int
    ) -> None:
        self._entries, self._streams, self._names = entries, streams, names
        self._max_payload = max_payload

    async def outdated(
        self, segment: Segment, replicas: int, *, is_fresh: bool
    ) -> list[SegmentEntry]:
        """The entries of a segment that had another number of replicas. Raises if they hold what
        another replica would need."""
        found = []
        for key in await self._entries.keys(f"{token(segment.name)}.*"):
            entry = SegmentEntry(self._entries, segment.name, key, self._max_payload, replicas)
            if await entry.saved_replicas() in (None, replicas):
                continue
            saved = None if is_fresh else await entry.read()
            if saved is not None and saved.replicas != replicas:
                reasons = [*_unfinished(saved, entry), *await self._waiting(segment)]
                if reasons:
                    raise replicas_changed(segment.name, saved.replicas, replicas, reasons)
            found.append(entry)
        return found

    async def _waiting(self, segment: Segment) -> list[str]:
        found = []
        for edge in segment.inputs:
            state = await self._streams.state(self._names.edge(edge, 1).stream)
            if state is not None and state.messages:
                name = f"{edge.source}:{edge.port}->{edge.target}"
                found.append(f"{state.messages} batches wait on the edge `{name}`")
        return found

    async def gone(self, segments: Iterable[str], *, is_fresh: bool) -> list[str]:
        """What is saved for segments that the flow no longer has; if it is not wanted, it is
        deleted."""
        known = {token(name) for name in segments}
        found = []
        for key in await self._entries.keys("*.*"):
            name = key.rpartition(".")[0]
            if name in known:
                continue
            entry = SegmentEntry(self._entries, name, key, self._max_payload)
            if is_fresh:
                await entry.delete()
            elif (saved := await entry.read()) is not None:
                reasons = _unfinished(saved, entry)
                found += [f"segment `{name}` is gone, and there are {each}" for each in reasons]
        return found


def _unfinished(saved: Saved, entry: SegmentEntry) -> list[str]:
    found = []
    if nodes := entry.state.nodes if entry.state is not None else []:
        found.append(f"saved states of {', '.join(f'`{node}`' for node in nodes)}")
    if saved.outbox:
        found.append(f"{len(saved.outbox)} batches that may not be on the broker")
    if any(has_ends(saved, edge) for edge in saved.inputs):
        found.append("inputs that have ended in part")
    return found


def has_ends(saved: Saved, edge: str) -> bool:
    """Whether some writers of an edge have ended in the run that goes on, or for the next one."""
    ends = saved.inputs[edge]["ends"]
    is_open = saved.run != saved.ended and any(saved.run in each for each in ends["runs"].values())
    return bool(ends["early"]) or is_open


def check_outbox(saved: Saved, outputs: Sequence[OutputEdge]) -> list[str]:
    """Which batches were to be published on an edge that is gone. Raises if the edge has other
    partitions now."""
    gone = 0
    counts: dict[str, int] = {}
    for message in saved.outbox:
        edge = next((each for each in outputs if each.names.is_of_edge(message.subject)), None)
        if edge is None:
            gone += 1
        elif not edge.names.is_current(message.subject):
            counts[edge.name] = counts.get(edge.name, 0) + 1
    for name, count in counts.items():
        raise partitions_changed(name, count)
    return [f"{gone} batches were to be published on an edge that is gone"] if gone else []


logger = logging.getLogger("torvyn.durable")


class NatsRun(DurableRun):
    """Made before the components, opened before they are initialized, closed after the last turn
    and before they are torn down."""

    is_remote = True
    _start_wait: BrokerWait
    _broker: BrokerThread | None = None
    _committer: NatsCommitter
    _figures: StreamFigures | None = None
    _is_announced = False

    def _wire(self, plan: Plan) -> WiredPlan:
        assert plan.cluster is not None
        self._cluster = plan.cluster
        self._names = FlowNames.of(plan)
        self._segments = {segment.name: segment for segment in segments_of(plan)}
        wired = wire(plan)
        if not plan.cluster.segments:
            return wired
        chosen = [self._segments[name] for name in plan.cluster.segments]
        return restrict(wired, {node.name for segment in chosen for node in segment.nodes})

    def _make_start_wait(self, plan: Plan) -> BrokerWait:
        return BrokerWait(plan.name, _start_limit_s(plan, self._cluster))

    def _make_edges(self) -> list[Any]:
        self._outputs: list[OutputEdge] = []
        self._inputs: list[InputEdge] = []
        here = {node.name for node in self.wired.plan.nodes}
        segment = self.wired.segment
        for edge in self.wired.edges:
            reading, writing = self._home(edge.edge.target), self._home(edge.edge.source)
            readers = reading.replicas
            partitions = PARTITIONS_PER_REPLICA * readers if readers > 1 else 1
            names = self._names.edge(edge.edge, partitions)
            if edge.writer in here:
                self._outputs.append(OutputEdge(edge, segment(edge.writer), names))
            if edge.reader in here:
                owned = [p for p in range(partitions) if self._owns(p, readers)]
                writers = writing.replicas if self._cluster.segments else 1
                self._inputs.append(InputEdge(edge, segment(edge.reader), names, owned, writers))
        lanes: dict[int | None, int] = {}
        for source in sorted(self._inputs, key=lambda edge: edge.name):
            source.lane = lanes.get(source.reader_segment, 0)
            lanes[source.reader_segment] = source.lane + 1
        return [*self._outputs, *self._inputs]

    def _home(self, node: str) -> Segment:
        return next(
            segment
            for segment in self._segments.values()
            if any(each.name == node for each in segment.nodes)
        )

    def _owns(self, partition: int, replicas: int) -> bool:
        return (
            not self._cluster.segments or partition % replicas == self._cluster.replica % replicas
        )

    # Open

    def choose(self, runners: Sequence[StateHolder]) -> None:
        super().choose(runners)
        self._save_between(runners)

    def open(self, runners: Sequence[StateHolder]) -> None:
        broker = self._broker = BrokerThread(
            self._cluster.nats, self.plan.name, self._start_wait, self._cluster.login
        )
        try:
            self._open_patiently(broker, runners)
        except BaseException:
            self.close_store()
            raise
        interval_s = self.plan.checkpoint_s or 1.0
        self._thread = CarrierThread(
            self.wired, self._edges, self._committer, self._checkpoints, self._bell, interval_s
        )

    def _open_patiently(self, broker: BrokerThread, runners: Sequence[StateHolder]) -> None:
        """A server that has just started may not be ready: each attempt begins anew."""
        while True:
            try:
                self._open_on(broker, runners)
                return
            except BrokerUnavailable as error:
                self._start_wait.retry(error)

    def _open_on(self, broker: BrokerThread, runners: Sequence[StateHolder]) -> None:
        """Nothing is changed on the broker before everything has been checked."""
        if not self._is_announced:
            broker.call(announce(broker.broker, self._names.presence))
            self._is_announced = True
        bucket = open_bucket(broker, self._names, self._cluster, is_fresh=self._is_fresh)
        entries = self._make_entries(broker, bucket)
        outdated = self._check_saved(broker, bucket, entries)
        self._states = open_streams(broker, self._edges, self._cluster, is_fresh=self._is_fresh)
        if (state := broker.call(broker.streams.state(bucket.stream))) is not None:
            self._states[bucket.stream] = state
        for entry in outdated:
            broker.call(entry.take_over(is_fresh=self._is_fresh))
        is_over = self._take_over(broker, entries)
        self._saved = SavedSegments(entries, broker.call)
        self._open_edges(broker, entries, runners)
        by_checkpoint = self._checkpoints.by_checkpoint
        writers = self._writer_entries(broker, bucket)
        if self._is_fresh:
            broker.call(writers.ignore_ends())
        self._committer = NatsCommitter(
            self._outputs, self._inputs, entries, broker, by_checkpoint, self._origins(), writers
        )
        if is_over:
            self._committer.publish_owed()
            self._committer.commit_over(is_completed=False)
            raise run_over(entries[0].key, self._cluster.run)

    def _save_between(self, runners: Sequence[StateHolder]) -> None:
        """A segment that reads and writes is saved by cuts: what it sends is published only
        together with what it has read. Where an aggregator has no state, that is not possible."""
        of, by_checkpoint = self.wired.segment_of, self._checkpoints.by_checkpoint
        stateless = {
            segment
            for runner, segment in zip(runners, of, strict=True)
            if runner.node.role == Role.AGGREGATOR
            and not has_attribute(runner.component, "snapshot")
        }
        reading = {edge.reader_segment for edge in self._inputs}
        for edge in self._outputs:
            segment = edge.writer_segment
            if segment is not None and segment in reading and segment not in stateless:
                by_checkpoint[segment] = True

    def _make_entries(self, broker: BrokerThread, bucket: Entries) -> list[SegmentEntry]:
        payload = broker.broker.max_payload
        made = []
        for number, wired_name in enumerate(self.wired.segments):
            segment = self._segment(number)
            key = f"{token(segment.name)}.{self._replica}"
            made.append(SegmentEntry(bucket, wired_name, key, payload, self._count(segment)))
        return made

    def _writer_entries(self, broker: BrokerThread, bucket: Entries) -> WriterEntries:
        payload = broker.broker.max_payload
        found = {}
        for edge in self._inputs:
            segment = self._home(edge.wired.edge.source).name
            keys = [f"{token(segment)}.{writer}" for writer in range(edge.writers)]
            found[edge.name] = [SegmentEntry(bucket, segment, key, payload) for key in keys]
        return WriterEntries(self._inputs, found, self._cluster.run)

    def _check_saved(
        self, broker: BrokerThread, bucket: Entries, entries: Sequence[SegmentEntry]
    ) -> list[SegmentEntry]:
        """Raises if what is saved does not fit. Returns the entries that had another number of
        replicas, and nothing that would matter."""
        checks = SavedChecks(bucket, broker.streams, self._names, broker.broker.max_payload)
        is_fresh = self._is_fresh
        own = [self._segment(number) for number in range(len(self.wired.segments))]
        readers = [] if is_fresh else [self._home(edge.wired.edge.target) for edge in self._outputs]
        outdated = []
        for segment in {each.name: each for each in (*own, *readers)}.values():
            count = self._count(segment)
            outdated += broker.call(checks.outdated(segment, count, is_fresh=is_fresh))
        differences = broker.call(checks.gone(self._segments, is_fresh=is_fresh))
        if is_fresh:
            return outdated
        found = {entry.segment: broker.call(entry.read()) or Saved.new() for entry in entries}
        for saved in found.values():
            differences += check_outbox(saved, self._outputs)
            self._check_ends(saved)
        differences += self._checkpoints.differences(SavedSegments(entries, broker.call))
        if differences:
            raise shape_changed(self.plan.name, differences)
        return outdated

    def _check_ends(self, saved: Saved) -> None:
        for edge in self._inputs:
            if edge.name in saved.inputs and has_ends(saved, edge.name):
                before, now = saved.inputs[edge.name]["writers"], edge.writers
                if before != now:
                    raise writers_changed(edge.name, before, now)

    def _take_over(self, broker: BrokerThread, entries: Sequence[SegmentEntry]) -> bool:
        """Whether all segments have ended in this run."""
        run = self._cluster.run
        saved = [broker.call(entry.take_over(run, is_fresh=self._is_fresh)) for entry in entries]
        if self._is_fresh:
            for edge in self._outputs:
                writers = self._count(self._home(edge.wired.edge.source))
                discard_sent(broker, edge.names.stream, self._replica, writers)
        return bool(run) and all(each.ended == run for each in saved)

    @property
    def _replica(self) -> int:
        return self._cluster.replica if self._cluster.segments else 0

    def _count(self, segment: Segment) -> int:
        """How many processes share what the segment reads."""
        return segment.replicas if self._cluster.segments else 1

    def _segment(self, number: int) -> Segment:
        pairs = zip(self.plan.nodes, self.wired.segment_of, strict=True)
        names = {node.name for node, of in pairs if of == number}
        return next(segment for name, segment in self._segments.items() if name in names)

    def _origins(self) -> dict[str, dict[str, Any]]:
        return {edge.name: origin(edge, self._states[edge.names.stream]) for edge in self._inputs}

    def _position(self, edge: InputEdge, saved: Saved) -> dict[str, Any] | None:
        """How far the edge was read. A stream that was made again has other numbers."""
        before = saved.inputs.get(edge.name)
        if before is None or before["created"] == self._states[edge.names.stream].created:
            return before
        if before["partitions"] == edge.names.partitions:
            what = "the stream of `%s` was deleted and made again: what waited in it is gone"
            logger.warning(what, edge.name, extra={"event": "edge.stream-replaced"})
        return {**before, "position": 0}

    def _open_edges(
        self, broker: BrokerThread, entries: Sequence[SegmentEntry], runners: Sequence[StateHolder]
    ) -> None:
        by_name = {runner.node.name: runner for runner in runners}
        by_checkpoint = self._checkpoints.by_checkpoint
        generations: dict[str, str] = {}
        runs: dict[str, str] = {}
        """By edge: the run of its writers, if all of them are here."""
        for edge in self._outputs:
            segment = edge.writer_segment or 0
            saved, is_cut = entries[segment].saved, by_checkpoint[segment]
            series = saved.series if is_cut else f"g{saved.generation}"
            identity = WriterIdentity(self._replica, series, saved.generation, saved.run)
            numbers = saved.next.get(edge.name, {}) if is_cut else {}
            key, field = self._key_of(edge.wired.edge)
            outbox = [each for each in saved.outbox if edge.names.is_current(each.subject)]
            edge.open(
                self._bell, broker, identity, numbers, key, field, is_cut=is_cut, outbox=outbox
            )
            generations[edge.name] = f"g{saved.generation}"
            if not self._cluster.segments:
                runs[edge.name] = saved.run
            writer: Any = by_name[edge.wired.writer].component
            writer.log = edge.log
        for source in self._inputs:
            segment = source.reader_segment or 0
            source.generation = generations.get(source.name, "")
            saved_input = self._position(source, entries[segment].saved)
            run = runs.get(source.name, self._cluster.run)
            source.open(self._bell, broker, saved_input, run, is_fresh=self._is_fresh)
            reader: Any = by_name[source.wired.reader].component
            reader.log = source.log
            reader.by_checkpoint = by_checkpoint[segment]

    def _key_of(self, edge: EdgePlan) -> tuple[Callable[[Any], str] | None, str | None]:
        """How the key of the next node is read, and the field where native code may find it. An
        element without one goes there as well: the node decides what happens to it."""
        node = next(n for s in self._segments.values() for n in s.nodes if n.name == edge.target)
        if node.key is None:
            return None, None
        read = key_reader(node.key)

        def key(element: Element) -> str:
            try:
                return read(element)
            except InvalidInput:
                return ""

        return key, simple_field(node.key)

    # Run

    def contexts(self, context: Context) -> list[Context]:
        """Where elements come from the broker only, their context has the epoch of its streams."""
        created: dict[int, list[str]] = {}
        for edge in self._inputs:
            stream = self._states[edge.names.stream].created
            created.setdefault(edge.reader_segment or 0, []).append(stream)
        readers = {edge.wired.reader for edge in self._inputs}
        pairs = zip(self.plan.nodes, self.wired.segment_of, strict=True)
        mixed = {
            segment
            for node, segment in pairs
            if node.role in (Role.SOURCE, Role.AGGREGATOR) and node.name not in readers
        }
        made = []
        for segment in self.wired.segment_of:
            if segment in mixed or segment not in created:
                made.append(context)
            else:
                epoch = blake2b("".join(sorted(created[segment])).encode(), digest_size=8)
                made.append(replace(context, epoch=epoch.hexdigest()))
        return made

    def restore(self) -> None:
        while True:
            try:
                self._checkpoints.restore(self._saved)
                break
            except BrokerUnavailable as error:
                # No component has been given its state before nodes that moved are saved.
                self._start_wait.retry(error)
        self._saved.release()

    def start(self, native: NativeFlow) -> None:
        super().start(native)
        assert self._broker is not None
        for edge in self._inputs:
            self._broker.call(edge.start(self._states[edge.names.stream].created))
        broker = self._broker
        created = {name: state.created for name, state in self._states.items()}
        self._figures = StreamFigures(broker.streams, created, broker.broker.connection)
        self._committer.check_broker = self._check_broker
        broker.call(self._figures.start())

    def _check_broker(self) -> None:
        """Raises what ends the flow: somebody has deleted what it needs, or it lacks a right."""
        assert self._broker is not None
        assert self._figures is not None
        if (denial := self._broker.denial) is not None:
            raise FlowError(denial.code, denial.message, hint=denial.hint)
        if (gone := self._figures.gone) is None:
            return
        edge = next((each for each in self._edges if each.names.stream == gone), None)
        if edge is None:
            raise bucket_gone(self.plan.name, self._names.bucket)
        raise stream_gone(edge.name, gone, self._figures.of(gone)[0])

    def close_store(self) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        if self._is_started:
            for output in self._outputs:
                output.stop()
            for edge in self._inputs:
                broker.call(edge.stop())
            if self._figures is not None:
                broker.call(self._figures.stop())
        broker.close()

    def ends(self) -> tuple[Sequence[OutputEdge], Sequence[InputEdge], StreamFigures | None]:
        """The ends of edges that are in this process, and what waits on the broker."""
        return self._outputs, self._inputs, self._figures


def _start_limit_s(plan: Plan, cluster: ClusterPlan) -> float | None:
    """How long the start waits for the broker. Whoever starts segments starts them again, too."""
    limit_s = cluster.start_timeout_s
    if limit_s is None and not cluster.segments:
        limit_s = OPEN_TIMEOUT_S
    limits = [each for each in (limit_s, plan.deadline_s) if each is not None]
    return min(limits, default=None)


def discard_sent(broker: BrokerThread, stream: str, writer: int, writers: int) -> None:
    """`writer`: which of the `writers` replicas this one is."""
    if writers == 1:
        broker.call(broker.streams.purge(stream))
        return
    messages = MessageList(broker.broker, stream)
    while page := broker.call(messages.next_page()):
        own = [each.sequence for each in page if _is_own(each.id, writer, writers)]
        broker.call(messages.delete(own))


def _is_own(identity: str, writer: int, writers: int) -> bool:
    """Whether this replica discards the batch. One of a replica that there is no more belongs to
    all."""
    batch = BatchId.parse(identity)
    return batch is None or batch.writer == writer or batch.writer >= writers
