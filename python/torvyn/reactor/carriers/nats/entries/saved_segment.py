"""What a segment has saved: its states, how far it has read, and the batches that it owes the
broker.

The states are a log of changes. The latest ones are in the entry itself; earlier ones are in pieces
beside it, which the entry names.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from torvyn.durable import Checkpoint
from torvyn.durable.state_log import PartName, chunk_parts, encode_change
from torvyn.jetstream import Message
from torvyn.jetstream.publisher import MESSAGE_ID
from torvyn.reactor.carriers.nats.refusals import newer_version
from torvyn.reactor.carriers.nats.run_ends import new_run

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
