"""The entry of one replica of a segment on the broker: what it has saved, and who owns it.

An entry has the states, how far the segment has read, and the batches that it owes the broker. The
states are a log of changes. The latest ones are in the entry itself; earlier ones are in pieces
beside it, which the entry names. A piece is written once, under a name that no other attempt and no
other process uses, and before the entry that names it: what no entry names is waste, and deleted
with the pieces before it. A value that exceeds the broker's `max_payload` is split: the parts are
written first, each time under new keys, and the entry that names them last. So the last entry stays
whole until the next one is.

The bucket of a flow's entries says which project it belongs to: another one may have a flow of the
same name in the same namespace. Every process of a flow says on the broker that it runs, to whoever
asks: what a flow has there must not be removed while somebody uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from torvyn._durable.backend import LogStatistics
from torvyn._durable.nats.edges import InputEdge, has_name, new_run
from torvyn._durable.nats.failures import (
    before_namespaces,
    bucket_refused,
    entry_damaged,
    entry_gone,
    newer_version,
    other_project,
    run_unnamed,
    taken_over,
)
from torvyn._durable.nats.names import FlowNames
from torvyn._durable.state_log import (
    Checkpoint,
    PartName,
    SavedState,
    chunk_parts,
    encode_change,
    replay,
)
from torvyn._io.jetstream import BrokerThread, Entries, Entry
from torvyn._io.nats import (
    MESSAGE_ID,
    BrokerConnection,
    BrokerUnavailable,
    Conflict,
    Message,
    Refused,
)
from torvyn._link.plan import ClusterPlan

PIECE_BYTES: Final = 16 * 1024
"""The changes in an entry become a piece when they have so many bytes: half of it, on average, is
written again with every cut."""
_READS: Final = 64
"""How many pieces are asked for at once."""


class StatePieces:
    def __init__(self, entries: Entries, key: str, most_bytes: int) -> None:
        self._entries = entries
        self._prefix = f"{key}.state"
        self._most_bytes = most_bytes - 256
        """Of a piece without its head."""
        self._next = 0
        self.owner = ""

    async def write(self, saved: Saved) -> Saved:
        """Moves the changes of an entry that is about to be written to pieces, if they are many."""
        if sum(len(body) for _, body in saved.tail) < PIECE_BYTES:
            return saved
        last = saved.tail[-1][0]
        heads = json.dumps([[number, len(body)] for number, body in saved.tail]).encode()
        changes = b"".join((heads, b"\n", *(body for _, body in saved.tail)))
        slices = [bytes(each) for each in _slices(changes, self._most_bytes)]
        pieces = []
        for at, part in enumerate(slices):
            head = json.dumps([last, at, len(slices), zlib.crc32(part)]).encode()
            number, self._next = self._next, self._next + 1
            name = f"{self._prefix}.{self.owner}.{number}"
            revision = await self._entries.put(name, head + b"\n" + part)
            pieces.append(Piece(self.owner, number, last, revision))
        return replace(saved, tail=()).with_pieces((*saved.pieces, *pieces))

    async def read(
        self, ranges: Sequence[tuple[str, int, int]]
    ) -> tuple[tuple[Piece, ...], list[tuple[int, bytes]]] | None:
        """The pieces and the changes in them; None if one is missing or damaged."""
        names = [(owner, at) for owner, low, high in ranges for at in range(low, high + 1)]
        pieces: list[Piece] = []
        changes: list[tuple[int, bytes]] = []
        parts: list[bytes] = []
        for start in range(0, len(names), _READS):
            some = names[start : start + _READS]
            keys = [f"{self._prefix}.{owner}.{at}" for owner, at in some]
            entries = await asyncio.gather(*map(self._entries.get, keys))
            for (owner, number), entry in zip(some, entries, strict=True):
                found = _decode(entry)
                if entry is None or found is None or found[1] != len(parts):
                    return None
                last, at, count, part = found
                pieces.append(Piece(owner, number, last, entry.revision))
                parts.append(part)
                if at == count - 1:
                    changes += _changes(b"".join(parts))
                    parts = []
        return None if parts else (tuple(pieces), changes)

    async def delete(self) -> None:
        await self._entries.delete(f"{self._prefix}.>")

    async def delete_before(self, revision: int) -> None:
        await self._entries.delete_before(f"{self._prefix}.>", revision)


def _slices(body: bytes, size: int) -> Iterator[memoryview]:
    view = memoryview(body)
    return (view[at : at + size] for at in range(0, len(view), size))


def _decode(entry: Entry | None) -> tuple[int, int, int, bytes] | None:
    if entry is None:
        return None
    head, _, part = entry.value.partition(b"\n")
    last, at, count, checksum = json.loads(head)
    return (last, at, count, part) if zlib.crc32(part) == checksum else None


def _changes(body: bytes) -> Iterator[tuple[int, bytes]]:
    head, _, rest = body.partition(b"\n")
    at = 0
    for number, size in json.loads(head):
        yield number, rest[at : at + size]
        at += size


ASK_S: Final = 1.0
"""How long an answer may take. If there is nobody, the server says so at once."""


async def announce(broker: BrokerConnection, subject: str) -> None:
    """Answers on this connection, and on those that follow it."""
    place = {"machine": socket.gethostname(), "process": os.getpid()}

    async def answer(message: Any) -> None:
        await message.respond(json.dumps(place).encode())

    async def subscribe(client: Any) -> None:
        await client.subscribe(subject, cb=answer)

    broker.setups.append(subscribe)
    await subscribe(broker.require())


async def who_runs(broker: BrokerConnection, subject: str) -> str | None:
    """A process of the flow; None if there is none."""
    import nats

    try:
        message = await broker.require().request(subject, b"", timeout=ASK_S)
    except nats.errors.NoRespondersError:
        return None
    except (nats.errors.TimeoutError, TimeoutError):
        raise BrokerUnavailable(f"nobody answers on `{subject}` of {broker.address}") from None
    place = json.loads(message.data)
    return f"process {place['process']} on {place['machine']}"


def open_bucket(
    broker: BrokerThread, names: FlowNames, cluster: ClusterPlan, *, is_fresh: bool
) -> Entries:
    """Makes it if it is new. Raises if it belongs to another project, or if an earlier version has
    saved the flow without a namespace, and that is wanted."""
    entries = Entries(broker.broker, broker.publisher, names.bucket)
    project = cluster.project
    state = broker.call(broker.streams.state(entries.stream))
    if state is None and not is_fresh:
        _check_earlier(broker, names, project)
    if state is not None and project and state.description not in ("", project):
        # Not with `--fresh` either: what it discards must be the project's own.
        raise other_project(names, state.description, project)
    try:
        broker.call(entries.open(cluster.stream_replicas, description=project))
    except Refused as error:
        raise bucket_refused(names.flow, error, cluster.stream_replicas) from error
    return entries


def _check_earlier(broker: BrokerThread, names: FlowNames, project: str) -> None:
    """Raises if the project has run the flow before there were namespaces."""
    earlier = replace(names, namespace="")
    if not names.namespace or not project:
        return
    entries = Entries(broker.broker, broker.publisher, earlier.bucket)
    state = broker.call(broker.streams.state(entries.stream))
    if state is not None and state.description == project:
        raise before_namespaces(names)


VERSION: Final = 2
_WHOLE_STATES: Final = 1
"""The version that saved the states of all nodes as a whole."""
_PLAIN: Final = (
    "series",
    "run",
    "ended",
    "owner",
    "generation",
    "replicas",
    "shape",
    "first",
    "number",
    "inputs",
    "next",
    "sent",
)
STARTS_KEPT: Final = 32
"""How many starts of a segment are in `Saved.sent`."""


class Piece(NamedTuple):
    """Changes, or a part of them, beside the entry."""

    owner: str
    """The process that wrote it."""
    at: int
    """Its number among those of its owner."""
    last: int
    """The last change that it begins or continues."""
    revision: int


@dataclass(frozen=True, slots=True)
class Saved:
    """The content of an entry."""

    series: str
    """The series of batches that its progress continues."""
    run: str
    """The run that it belongs to, until that has ended."""
    ended: str = ""
    """The last run that has ended."""
    owner: str = ""
    """The process that writes the entry."""
    generation: int = 0
    """How often the segment was started."""
    replicas: int = 1
    """How many replicas share what the segment reads."""
    shape: str = "{}"
    first: int = 1
    number: int = 0
    """The changes that are needed for the states."""
    pieces: tuple[Piece, ...] = ()
    ranges: Sequence[tuple[str, int, int]] = ()
    """The pieces by owner, with the first and the last of those that follow one another."""
    tail: Sequence[tuple[int, bytes]] = ()
    """The changes behind those of the pieces, by their numbers."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """By edge: the position and the batches that were seen, and the stream that they belong to."""
    next: Mapping[str, Any] = field(default_factory=dict)
    """By edge: the next number of each partition."""
    sent: Mapping[str, Any] = field(default_factory=dict)
    """By edge with a `max_age`, start of the segment and partition: how many elements it has sent.
    Only for segments that begin a new series with every start."""
    outbox: Sequence[Message] = ()
    """What was to be published after the entry."""

    @classmethod
    def new(cls) -> Saved:
        """The starts are counted from the time on: an entry that was lost has had smaller numbers,
        and what its owner has sent may still wait under them."""
        generation = int(time.time() * 1000)
        return cls(series=f"c{secrets.token_hex(4)}", run=new_run(), generation=generation)

    def encode(self) -> bytes:
        head = {
            "v": VERSION,
            **{name: getattr(self, name) for name in _PLAIN},
            "pieces": self.ranges,
            "tail": [[number, len(body)] for number, body in self.tail],
            "outbox": [[m.subject, m.headers[MESSAGE_ID], len(m.body)] for m in self.outbox],
        }
        bodies = (*(body for _, body in self.tail), *(message.body for message in self.outbox))
        return b"".join((json.dumps(head, separators=(",", ":")).encode(), b"\n", *bodies))

    @classmethod
    def decode(cls, value: bytes) -> Saved:
        line, _, rest = value.partition(b"\n")
        head = json.loads(line)
        if head["v"] not in (_WHOLE_STATES, VERSION):
            raise newer_version(head["v"])
        at = 0
        tail = []
        for number, size in head.get("tail", ()):
            tail.append((number, rest[at : at + size]))
            at += size
        parts: dict[PartName, bytes] = {}
        for node, size in head.get("states", {}).items():
            for part, chunk in chunk_parts(rest[at : at + size]).items():
                parts[node, part] = chunk
            at += size
        if parts:
            head["number"], tail = 1, [(1, encode_change(parts))]
        outbox = []
        for subject, identity, size in head["outbox"]:
            outbox.append(Message(subject, rest[at : at + size], {MESSAGE_ID: identity}))
            at += size
        # Entries of earlier versions have no `sent`.
        plain = {name: head[name] for name in _PLAIN if name in head}
        ranges = [(owner, low, high) for owner, low, high in head.get("pieces", ())]
        return cls(**plain, ranges=ranges, tail=tail, outbox=outbox)

    def with_change(self, new: Checkpoint) -> Saved:
        """With a change of the states, in the place of one that has its number."""
        saved = replace(self, shape=new.shape)
        if not new.is_new:
            return saved
        kept: list[tuple[int, bytes]] = []
        pieces: tuple[Piece, ...] = ()
        if not new.is_whole:
            kept = [each for each in self.tail if new.first <= each[0] < new.number]
            pieces = self.pieces
            if pieces and pieces[0].last < new.first:
                pieces = tuple(dropwhile(lambda piece: piece.last < new.first, pieces))
        saved = replace(saved, first=new.first, number=new.number)
        return replace(saved, tail=(*kept, (new.number, new.body))).with_pieces(pieces)

    def with_pieces(self, pieces: tuple[Piece, ...]) -> Saved:
        if pieces is self.pieces:
            return self
        ranges: list[tuple[str, int, int]] = []
        for piece in pieces:
            if ranges and ranges[-1][0] == piece.owner and ranges[-1][2] == piece.at - 1:
                ranges[-1] = (piece.owner, ranges[-1][1], piece.at)
            else:
                ranges.append((piece.owner, piece.at, piece.at))
        return replace(self, pieces=pieces, ranges=ranges)

    def sent_to(self, edge: str, partition: int) -> tuple[str, int]:
        """The series of the last start on a partition of an edge, and how many elements it has
        had; 0 if that is not known."""
        if edge in self.next:
            return self.series, self.next[edge].get(str(partition), 0)
        series = f"g{self.generation}"
        return series, self.sent.get(edge, {}).get(series, {}).get(str(partition), 0)

    def with_sent(self, edge: str, series: str, counts: Mapping[int, int]) -> Saved:
        """With what the last start has sent to an edge so far."""
        earlier = {key: each for key, each in self.sent.get(edge, {}).items() if key != series}
        kept = dict(list(earlier.items())[-(STARTS_KEPT - 1) :])
        now = {str(partition): count for partition, count in counts.items()}
        return replace(self, sent={**self.sent, edge: {**kept, series: now}})


HEAD_BYTES: Final = 1024
"""What the broker needs of a message besides its value."""


class SegmentEntry:
    """For the loop. `segment`: its name in the wired plan."""

    def __init__(
        self, entries: Entries, segment: str, key: str, max_payload: int, replicas: int = 1
    ) -> None:
        self._entries, self.segment, self.key = entries, segment, key
        self._most_bytes = max_payload - HEAD_BYTES
        self._replicas = replicas
        self._revision = 0
        self._has_parts = True
        """Whether there may be parts of earlier entries."""
        self._pieces = StatePieces(entries, key, self._most_bytes)
        self.saved = Saved.new()
        self.state: SavedState | None = None
        """The states that were read, until somebody has taken them."""

    async def read(self) -> Saved | None:
        """What is saved; None if there is nothing."""
        revision = -1
        while True:
            entry = await self._entries.get(self.key)
            if entry is not None and entry.revision == self._revision and self.state is not None:
                return self.saved
            self.state = None
            self._revision = 0 if entry is None else entry.revision
            if entry is None:
                return None
            if (saved := await self._decode(entry)) is not None:
                self.saved = saved
                return saved
            if entry.revision == revision:
                raise entry_damaged(self.key)
            # Its owner has written the next one, and deleted the parts of this one.
            revision = entry.revision

    async def _decode(self, entry: Entry) -> Saved | None:
        """What is saved; None if something of it is missing."""
        if (value := await self._join(entry)) is None:
            return None
        saved = Saved.decode(value)
        found = await self._pieces.read(saved.ranges)
        if found is None:
            return None
        pieces, earlier = found
        changes = (each for each in (*earlier, *saved.tail) if each[0] >= saved.first)
        self.state = replay(self.segment, saved.shape, changes)
        return replace(saved, pieces=pieces)

    async def saved_replicas(self) -> int | None:
        """The number of replicas that it was saved with; None if there is nothing."""
        entry = await self._entries.get(self.key)
        return None if entry is None else _head(entry).get("replicas", 0)

    async def saved_run(self) -> str:
        """The run that it was saved in; empty if there is nothing."""
        entry = await self._entries.get(self.key)
        return "" if entry is None else str(_head(entry).get("run", ""))

    async def saved_end(self) -> str:
        """The last run that has ended; empty if there is none."""
        saved = await self.read()
        return "" if saved is None else saved.ended

    async def saved_sent(self) -> dict[str, Any]:
        """What its owners have sent, as `Saved.sent` has it."""
        entry = await self._entries.get(self.key)
        return {} if entry is None else _head(entry).get("sent", {})

    async def delete(self) -> None:
        await self._entries.delete(self.key)
        await self._entries.delete(f"{self.key}.part.>")
        await self._pieces.delete()

    async def take_over(self, run: str = "", *, is_fresh: bool = False) -> Saved:
        """Makes this process the owner; one that runs the segment elsewhere fails with its next
        commit. Returns what was saved before."""
        while True:
            kept = await self._discard() if is_fresh else (await self.read() or Saved.new())
            begun = kept.run if kept.run != kept.ended else new_run()
            taken = replace(
                kept,
                owner=secrets.token_hex(8),
                generation=kept.generation + 1,
                replicas=self._replicas,
                run=run or begun,
            )
            try:
                await self._write(taken)
                self._pieces.owner = taken.owner
                await self._delete_pieces(taken.pieces)
                return kept
            except Conflict:
                continue

    async def _discard(self) -> Saved:
        """A new content in the place of the one that is there, even if that cannot be read."""
        entry = await self._entries.get(self.key)
        self._revision, self.state = 0 if entry is None else entry.revision, None
        generation = 0 if entry is None else _head(entry).get("generation", 0)
        return replace(Saved.new(), generation=generation)

    async def save(self, saved: Saved) -> None:
        """Writes the next state; raises `broker.taken-over` if another process owns it now."""
        while True:
            try:
                await self._write(await self._pieces.write(saved))
                return
            except Conflict:
                # An earlier attempt, whose confirmation was lost, was stored; its content may be
                # another one. Or another process was started.
                self._revision = (await self._own_entry()).revision

    async def check(self) -> None:
        """Raises `broker.taken-over` if another process owns the segment now."""
        await self._own_entry()

    async def _own_entry(self) -> Entry:
        entry = await self._entries.get(self.key)
        if entry is None:
            raise entry_gone(self.key)
        if _head(entry)["owner"] != self.saved.owner:
            raise taken_over(self.key)
        return entry

    async def _write(self, saved: Saved) -> None:
        value, first = saved.encode(), 0
        if len(value) > self._most_bytes:
            value, first = await self._write_parts(value, saved)
            self._has_parts = True
        self._revision = await self._entries.put(self.key, value, self._revision)
        is_smaller = saved.pieces[:1] != self.saved.pieces[:1]
        self.saved = saved
        if self._has_parts:
            await self._delete_parts(first)
        if is_smaller:
            await self._delete_pieces(saved.pieces)

    async def _write_parts(self, value: bytes, saved: Saved) -> tuple[bytes, int]:
        """Returns the entry that names them, and the revision of the first part."""
        prefix = f"{self.key}.part.{secrets.token_hex(8)}"
        size = self._most_bytes
        parts = [value[at : at + size] for at in range(0, len(value), size)]
        revisions = [
            await self._entries.put(f"{prefix}.{number}", part) for number, part in enumerate(parts)
        ]
        named = {
            "v": VERSION,
            "owner": saved.owner,
            "generation": saved.generation,
            "replicas": saved.replicas,
            "run": saved.run,
            "sent": saved.sent,
            "parts": len(parts),
            "at": prefix,
            "crc": zlib.crc32(value),
        }
        return json.dumps(named).encode(), revisions[0]

    async def _delete_parts(self, first: int) -> None:
        """Deletes the parts that no entry names: whoever may still write the next entry has read
        this one first, so that its parts are newer."""
        with contextlib.suppress(BrokerUnavailable, Refused):
            await self._entries.delete_before(f"{self.key}.part.>", first or self._revision)
            self._has_parts = bool(first)

    async def _delete_pieces(self, pieces: tuple[Piece, ...]) -> None:
        with contextlib.suppress(BrokerUnavailable, Refused):
            await self._pieces.delete_before(pieces[0].revision if pieces else self._revision)

    async def _join(self, entry: Entry) -> bytes | None:
        """The value of an entry; None if parts of it are missing."""
        head = _head(entry)
        if "parts" not in head:
            return entry.value
        parts = [await self._entries.get(f"{head['at']}.{at}") for at in range(head["parts"])]
        value = b"".join(part.value for part in parts if part is not None)
        return value if zlib.crc32(value) == head["crc"] else None


def _head(entry: Entry) -> dict[str, Any]:
    """The first line of a value."""
    head: dict[str, Any] = json.loads(entry.value.partition(b"\n")[0])
    return head


class SavedSegments:
    """What the segments have saved, by their names in the wired plan, as the checkpoints read
    it."""

    def __init__(self, entries: Sequence[SegmentEntry], call: Callable[[Any], Any]) -> None:
        self._entries = {entry.segment: entry for entry in entries}
        self._call = call

    def checkpoint(self, segment: str) -> SavedState | None:
        state = self._entries[segment].state
        return state if state is not None and state.parts else None

    def segments(self) -> list[str]:
        return list(self._entries)

    def replace_checkpoints(self, old: Sequence[str], new: Sequence[Checkpoint]) -> None:
        """Nodes have moved to other segments. A crash in between leaves a node in two entries, with
        one and the same state: at first entries only gain nodes."""
        states = {each.segment: replay(each.segment, each.shape, [(1, each.body)]) for each in new}
        for segment in old:
            kept = self._entries[segment].state
            before = kept.parts if kept is not None else {}
            parts = {**before, **(states[segment].parts if segment in states else {})}
            self._write(Checkpoint.whole(segment, _joined_shape(kept, states.get(segment)), parts))
        for segment in old:
            state = states.get(segment) or SavedState(segment, "{}")
            self._write(Checkpoint.whole(segment, state.shape, state.parts))

    def _write(self, checkpoint: Checkpoint) -> None:
        entry = self._entries[checkpoint.segment]
        self._call(entry.save(entry.saved.with_change(checkpoint)))

    def release(self) -> None:
        """The states have been given to the components."""
        for entry in self._entries.values():
            entry.state = None

    def logs(self) -> dict[str, LogStatistics]:
        return {}


def _joined_shape(*states: SavedState | None) -> str:
    shapes = [json.loads(state.shape) for state in states if state is not None]
    return json.dumps({node: name for shape in shapes for node, name in shape.items()})


logger = logging.getLogger("torvyn.durable")

PATIENCE_S: Final = 10.0
"""How long a writer that has ended without a name may take to start in a run with one."""


class WriterEntries:
    """For the loop. `entries`: by input, those of its writers."""

    def __init__(
        self,
        inputs: Sequence[InputEdge],
        entries: Mapping[str, Sequence[SegmentEntry]],
        run: str,
    ) -> None:
        self._inputs, self._entries, self._run = inputs, entries, run
        self._unnamed_since_s: float | None = None
        self._ignored: set[tuple[str, str]] = set()
        """Writers, and runs of theirs whose ends do not matter."""
        self._received: dict[str, int] = {}
        """By input: how many elements had come when it was looked at last."""

    async def note_sent(self) -> None:
        """Tells the inputs what earlier starts of their writers have sent: if all of it has
        expired, nothing else does."""
        for edge in self._inputs:
            if edge.options.max_age_s is None:
                continue
            for writer, entry in enumerate(self._entries[edge.name]):
                edge.note_sent(writer, (await entry.saved_sent()).get(edge.name, {}))

    async def ignore_ends(self) -> None:
        """What has ended so far ended before this run, which begins anew."""
        for edge in self._inputs:
            for entry in self._entries[edge.name]:
                self._ignored.add((entry.key, await entry.saved_end()))

    async def note_lost_ends(self) -> None:
        """A writer that has ended says so once, and the broker may delete that: because it is older
        than `max_age`, or because somebody purges the stream. Its entry says it as well."""
        for edge in self._inputs:
            received, self._received[edge.name] = self._received.get(edge.name), edge.received
            if edge.received == received and edge.is_caught_up:
                for writer, entry in enumerate(self._entries[edge.name]):
                    await self._note_lost_end(edge, writer, entry)

    async def _note_lost_end(self, edge: InputEdge, writer: int, entry: SegmentEntry) -> None:
        saved = await entry.read()
        # What it owes the broker may have the end in it.
        if saved is None or not saved.ended or saved.outbox or saved.run != saved.ended:
            return
        if (entry.key, saved.ended) in self._ignored or not edge.missing_ends(writer, saved.ended):
            return
        stored = await edge.stored_ends(writer)
        # What has come meanwhile is not lost.
        lost = [part for part in edge.missing_ends(writer, saved.ended) if part not in stored]
        if lost and edge.is_caught_up:
            text = (
                "`%s`: the message that says that `%s` has ended is gone; the run ends without it"
            )
            logger.warning(text, edge.name, entry.key, extra={"event": "edge.end-lost"})
            for partition in lost:
                series, sent = saved.sent_to(edge.name, partition)
                edge.note_lost_end(writer, series, saved.ended, partition, sent)

    async def check_runs(self) -> None:
        """Raises if a writer has ended without a name and was not started with one: its end in
        this run would never come."""
        found = [(edge, writer) for edge in self._inputs for writer in edge.unnamed_writers]
        for edge, writer in found:
            entry = self._entries[edge.name][writer]
            if has_name(await entry.saved_run()):
                continue
            if self._unnamed_since_s is None:
                self._unnamed_since_s = time.monotonic()
            if time.monotonic() - self._unnamed_since_s >= PATIENCE_S:
                raise run_unnamed(edge.name, entry.key, self._run)
            return
        self._unnamed_since_s = None
