"""What a segment has saved: its states, how far it has read, and the batches that it owes the
broker."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torvyn.jetstream import Message
from torvyn.jetstream.publisher import MESSAGE_ID
from torvyn.reactor.carriers.nats.refusals import newer_version
from torvyn.reactor.carriers.nats.run_ends import new_run

VERSION: Final = 1
_PLAIN: Final = (
    "series",
    "run",
    "ended",
    "owner",
    "generation",
    "replicas",
    "shape",
    "inputs",
    "next",
    "sent",
)
STARTS_KEPT: Final = 32
"""How many starts of a segment are in `Saved.sent`."""


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
    states: Mapping[str, bytes] = field(default_factory=dict)
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
            "states": {name: len(state) for name, state in self.states.items()},
            "outbox": [[m.subject, m.headers[MESSAGE_ID], len(m.body)] for m in self.outbox],
        }
        bodies = (*self.states.values(), *(message.body for message in self.outbox))
        return b"".join((json.dumps(head, separators=(",", ":")).encode(), b"\n", *bodies))

    @classmethod
    def decode(cls, value: bytes) -> Saved:
        line, _, rest = value.partition(b"\n")
        head = json.loads(line)
        if head["v"] != VERSION:
            raise newer_version(head["v"])
        at = 0
        states: dict[str, bytes] = {}
        for name, size in head["states"].items():
            states[name] = rest[at : at + size]
            at += size
        outbox = []
        for subject, identity, size in head["outbox"]:
            outbox.append(Message(subject, rest[at : at + size], {MESSAGE_ID: identity}))
            at += size
        # Entries of earlier versions have no `sent`.
        plain = {name: head[name] for name in _PLAIN if name in head}
        return cls(**plain, states=states, outbox=outbox)

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
