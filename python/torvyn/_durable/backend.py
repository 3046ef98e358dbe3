"""What goes into the store and what comes out.

Sequence numbers are assigned per log by its writer: dense, from 0, and never reused. Times are Unix
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from torvyn._durable.state_log import Checkpoint

MIN_LOG_BYTES: Final = 1024 * 1024
"""The smallest `max_bytes`: below it, SQLite's own files leave no room for data."""

WhenFull = Literal["block", "drop-oldest", "drop-newest", "error"]
LossReason = Literal["dropped", "expired", "corrupt", "discarded"]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The limits of a log."""

    max_bytes: int
    """This log's part of the disk space of the store: database, WAL and reserve together."""
    max_age_s: float | None = None
    backpressure: WhenFull = "block"

    def __post_init__(self) -> None:
        if self.max_bytes < MIN_LOG_BYTES:
            raise ValueError(f"max_bytes must be at least {MIN_LOG_BYTES}, got {self.max_bytes}")


@dataclass(frozen=True, slots=True)
class Append:
    """A batch of `count` elements with the sequence numbers from `first` on.

    `first` is the log's `next_sequence`, or the end of the batch before it in the transaction.
    """

    log: str
    first: int
    count: int
    body: bytes
    newest_ns: int


@dataclass(slots=True)
class Transaction:
    """What becomes durable together."""

    appends: Sequence[Append] = ()
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    """By log: every element up to this sequence number is settled."""
    settled_ranges: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By log: elements that were settled in whatever order, by the first and last ones."""
    checkpoint: Checkpoint | None = None
    expired: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """By log: of what is settled, the elements that became too old behind the reader."""


@dataclass(frozen=True, slots=True)
class Row:
    """A batch as it was appended. The elements up to `acknowledged` may be part of it."""

    first: int
    count: int
    body: bytes
    newest_ns: int

    @property
    def last(self) -> int:
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class LostRange:
    """Elements that no reader will get. `count` is exact."""

    log: str
    first: int
    last: int
    reason: LossReason
    at_ns: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """`appended` = `acknowledged` + `dropped` + `expired` + `corrupt` + `discarded` + `elements`,
    since the log was created."""

    rows: int
    elements: int
    """Neither settled nor lost."""
    bytes: int
    """The bodies of the rows."""
    disk_bytes: int
    """What the rows occupy, about; `DurableStore.disk_bytes` is exact for all logs together."""
    limit_bytes: int
    """The most that `disk_bytes` may become."""
    oldest_ns: int | None
    appended: int
    acknowledged: int
    dropped: int
    expired: int
    corrupt: int
    discarded: int
    expired_behind_reader: int = 0
    """Of `expired`, since the store was opened: what a reader had got."""

    @property
    def lost_before_reader(self) -> int:
        """What was lost in the log itself, and not discarded by hand."""
        return self.dropped + self.expired - self.expired_behind_reader + self.corrupt


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The wall clock was set: times before `at_ns` were stamped by a clock `step_s` behind."""

    at_ns: int
    step_s: float


@dataclass(frozen=True, slots=True)
class StoreState:
    """`ok`, or `degraded` with the reason; a degraded store recovers at a later commit."""

    name: Literal["ok", "degraded"] = "ok"
    reason: str = ""
