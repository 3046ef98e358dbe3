"""What could not be sent, on disk: oldest first, with a limit, across restarts.

One log per signal in a store of its own. Above the limit the oldest requests are dropped; their
spans and data points are counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn._observe.otlp_sender import SIGNALS, Request, Signal
from torvyn.errors import StoreUnavailable

_PAGE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Spooled:
    """A request, and its last sequence number in the spool."""

    request: Request
    last: int


class Spool:
    """Used by one thread."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """Raises `StoreUnavailable`, or `durable.in-use` if another process has it."""
        options = LogOptions(limit_bytes // len(SIGNALS), backpressure="drop-oldest")
        self._store = DurableStore.open(path, dict.fromkeys(SIGNALS, options))
        self.dropped: Counter[Signal] = Counter()
        for signal in SIGNALS:
            # What was lost while no process ran was lost to damage.
            self._count_lost(signal)

    @property
    def max_request_bytes(self) -> int:
        return min(self._store.max_row_bytes(signal) for signal in SIGNALS)

    @property
    def length(self) -> int:
        """Spans and data points that wait."""
        return sum(self._store.statistics(signal).elements for signal in SIGNALS)

    def append(self, request: Request, at_ns: int) -> bool:
        """False if the disk does not take it now."""
        first = self._store.next_sequence(request.signal)
        row = Append(request.signal, first, request.count, request.body, at_ns)
        try:
            self._store.commit(Transaction([row]))
            self._count_lost(request.signal)
        except StoreUnavailable:
            return False
        return True

    def _count_lost(self, signal: Signal) -> None:
        if lost := self._store.lost(signal):
            self.dropped[signal] += sum(gap.count for gap in lost)
            self._store.forget_lost(signal, lost[-1].last)

    def page(self) -> list[Spooled]:
        """The oldest requests that wait, of one signal; empty if none do."""
        for signal in SIGNALS:
            rows = self._store.read(signal, self._store.acknowledged(signal), _PAGE_BYTES)
            self._count_lost(signal)
            if rows:
                return [Spooled(Request(signal, row.body, row.count), row.last) for row in rows]
        return []

    def remove(self, spooled: Spooled) -> None:
        """Removes a request and those before it."""
        acknowledged: dict[str, int] = {spooled.request.signal: spooled.last}
        self._store.commit(Transaction(acknowledged=acknowledged))

    def close(self) -> None:
        self._store.close()
