"""The store of a flow: commits, reads, limits.

All methods may be called from any thread; a commit excludes the others. A call costs a few
microseconds, a commit one `fsync`, and about every 8 MiB a checkpoint of the WAL.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

from torvyn.durable import catalog, checkpoints, log_rows
from torvyn.durable.admission import Admission
from torvyn.durable.clock import AgeClock, boot_number, uptime_s
from torvyn.durable.disk.budget import FRAME_BYTES, Budget, row_cost, wal_cost
from torvyn.durable.disk.high_water import HighWaterFile
from torvyn.durable.disk.lock_file import LockFile
from torvyn.durable.disk.salvage import finish_salvage, salvage
from torvyn.durable.disk.store_file import StoreFile
from torvyn.durable.failures import StoreUnavailable, unavailable
from torvyn.durable.log_state import LogState
from torvyn.durable.records import (
    Checkpoint,
    LogOptions,
    LogStatistics,
    LostRange,
    Row,
    StoreState,
    Transaction,
)

logger = logging.getLogger("torvyn.durable")

_SMALL_WAL_BYTES: Final = 16 * FRAME_BYTES
T = TypeVar("T")


class DurableStore:
    """Open it with `DurableStore.open`; close it, or use `with`."""

    def __init__(
        self,
        path: Path,
        logs: Mapping[str, LogOptions],
        now: Callable[[], float],
        uptime: Callable[[], float],
    ) -> None:
        self.path: Final = path
        self.epoch = ""
        """Random, from the creation of the store on: with a sequence number, a unique key."""
        self._logs = dict(logs)
        self._budget = Budget.of(options.max_bytes for options in logs.values())
        self._clock = AgeClock(now, uptime, boot_number())
        self._lock = threading.RLock()
        self._states: catalog.States = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._owner = LockFile(path.with_name(path.name + ".lock"), path)
        except OSError as error:
            raise unavailable(path, error) from error
        self._mark = HighWaterFile(path.with_name(path.name + ".mark"))
        self._file = StoreFile(path, self._budget)
        self._admission = Admission(self._file, self._clock)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        logs: Mapping[str, LogOptions],
        *,
        now: Callable[[], float] = time.time,
        uptime: Callable[[], float] = uptime_s,
    ) -> Self:
        """Opens the store, whatever its files contain.

        Raises `StoreUnavailable` if the disk does not work, and `durable.in-use` if another process
        has the store.
        """
        store = cls(Path(path), logs, now, uptime)
        try:
            store._ready()
        except BaseException:
            store.close()
            raise
        return store

    def _ready(self) -> None:
        """Reconnects after a failure. What is damaged is salvaged first."""
        if self._file.is_open:
            return
        mark = self._mark.read()
        try:
            finish_salvage(self.path, mark)
            try:
                self._connect()
            except StoreUnavailable:
                if not self._file.is_damaged:
                    # The reserve was freed if the disk is full.
                    if self._file.has_reserve:
                        raise
                    self._connect()
                    return
                salvage(self.path, mark)
                self._file.is_damaged = False
                self._connect()
        except (sqlite3.Error, OSError) as error:
            raise self._file.failed(error) from error

    def _connect(self) -> None:
        self._file.open()
        mark, before = self._mark.read(), self._states
        at_ns = self._clock.now_ns()
        with self._file.transaction(_SMALL_WAL_BYTES) as connection:
            epoch = catalog.load_epoch(connection, mark)
            states = catalog.load(connection, self._logs, self._budget, mark)
            for name, old in before.items():
                if states[name].next > old.next:
                    catalog.undo_appends(connection, states[name], old.next)
                states[name].read_up_to = old.read_up_to
            catalog.apply_mark(connection, states, epoch, mark, at_ns)
            catalog.count_gaps(connection, states, at_ns)
            catalog.save(connection, states.values())
        self.epoch, self._states = epoch, states
        self._mark.write(epoch, states.values())

    def commit(self, transaction: Transaction) -> list[LostRange]:
        """Makes a transaction durable, and returns what a limit made it drop.

        Raises `StoreUnavailable`, and then nothing of it is stored: `full` and `io` if the disk
        fails, `limit` if a log with `block` or `error` has no room for its appends. To make room,
        commit acknowledgements alone.
        """
        with self._lock:
            self._ready()
            if transaction.appends:
                self._file.require_space()
            cost = sum(row_cost(len(new.body)) for new in transaction.appends)
            states = {name: state.copy() for name, state in self._states.items()}
            with self._file.transaction(wal_cost(cost)) as connection:
                lost = self._admission.apply(connection, states, transaction)
                catalog.save(connection, _changed(self._states, states))
            self._states = states
            self._mark.write(self.epoch, states.values())
            self._file.recovered()
            if not transaction.appends:
                self._file.shrink_if_drained(self._clock.uptime_ns() / 1e9)
            return lost

    def has_room(self, log: str, size_bytes: int) -> bool:
        """Whether a row with a body of this size would be stored now."""
        with self._lock:
            self._ready()
            return self._file.has_reserve and self._admission.fits(
                self._states[log], row_cost(size_bytes)
            )

    def max_row_bytes(self, log: str) -> int:
        """The largest body that `commit` takes."""
        return self._states[log].row_limit_bytes

    def read(self, log: str, after: int, max_bytes: int) -> list[Row]:
        """The rows with elements behind `after`, oldest first, until `max_bytes` are reached.

        At least one if there is any. Damaged rows are left out, and are in `lost` from now on.
        """
        with self._lock:
            page = self._reading(lambda c: log_rows.read(c, self._states[log], after, max_bytes))
            if page.damaged or page.gaps:
                self._lose(log, page.damaged, page.gaps, "its checksum does not fit")
            state = self._states[log]
            if page.rows:
                state.read_up_to = max(state.read_up_to, page.rows[-1].last)
            return page.rows

    def _reading(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Once more after a salvage."""
        for attempt in (1, 2):
            self._ready()
            try:
                return query(self._file.connection)
            except sqlite3.Error as error:
                failure = self._file.failed(error)
                if attempt == 2 or not self._file.is_damaged:
                    raise failure from error
        raise AssertionError

    def _lose(
        self, log: str, positions: list[int], ranges: list[tuple[int, int]], reason: str
    ) -> None:
        state, at_ns = self._states[log].copy(), self._clock.now_ns()
        with self._file.transaction(wal_cost(0) + _SMALL_WAL_BYTES) as connection:
            for position in positions:
                log_rows.quarantine(connection, state, position, reason)
            for first, last in ranges:
                log_rows.lose(connection, state, first, last, "corrupt", at_ns)
            catalog.save(connection, [state])
        self._states[log] = state
        self._mark.write(self.epoch, self._states.values())
        logger.error("`%s`: damaged rows in log `%s`: %s", self.path, log, ranges or reason)

    def quarantine(self, log: str, first: int, reason: str) -> list[LostRange]:
        """Takes a row out of the log whose body the caller cannot decode."""
        with self._lock:
            self._ready()
            state, before = self._states[log], set(self._states[log].lost())
            rows = log_rows.read(self._file.connection, state, first - 1, 1).rows
            if rows and rows[0].first == first:
                self._lose(log, [state.base + first], [(first, rows[0].last)], reason)
            return [lost for lost in self._states[log].lost() if lost not in before]

    def note_read(self, log: str, up_to: int) -> None:
        """The elements up to here were delivered without a read: no policy drops them any more."""
        with self._lock:
            state = self._states[log]
            state.read_up_to = max(state.read_up_to, up_to)

    def next_sequence(self, log: str) -> int:
        """The sequence number of the next element."""
        return self._states[log].next

    def acknowledged(self, log: str) -> int:
        """The elements up to here are settled: delivered or lost. -1 at first."""
        return self._states[log].acknowledged

    def lost(self, log: str) -> list[LostRange]:
        """What was lost and not forgotten yet, in order."""
        with self._lock:
            return self._states[log].lost()

    def forget_lost(self, log: str, up_to: int) -> None:
        """The losses up to a sequence number were reported."""
        with self._lock:
            self._ready()
            state = self._states[log].copy()
            with self._file.transaction(_SMALL_WAL_BYTES) as connection:
                log_rows.report_holes(connection, state, up_to)
                catalog.save(connection, [state])
            self._states[log] = state

    def checkpoint(self, segment: str) -> Checkpoint | None:
        """The segment's last checkpoint; None if there is none or it is damaged."""
        with self._lock:
            return self._reading(lambda connection: checkpoints.load(connection, segment))

    def segments(self) -> list[str]:
        """The segments that have a checkpoint."""
        with self._lock:
            return self._reading(checkpoints.segments)

    def logs(self) -> dict[str, LogStatistics]:
        """All logs of the file, with those that the flow no longer has."""
        return {name: self.statistics(name) for name in self._states}

    def discard(self) -> list[LostRange]:
        """Removes all checkpoints and the contents of all logs; sequence numbers continue."""
        with self._lock:
            self._ready()
            at_ns, lost = self._clock.now_ns(), []
            states = {name: state.copy() for name, state in self._states.items()}
            with self._file.transaction(self._budget.wal_bytes) as connection:
                checkpoints.discard(connection)
                connection.execute("DELETE FROM rows")
                for state in states.values():
                    end = state.next - 1
                    lost += log_rows.lose(
                        connection, state, state.acknowledged + 1, end, "discarded", at_ns
                    )
                    state.rows = state.bytes = state.cost = 0
                catalog.save(connection, states.values())
            self._states = states
            self._mark.write(self.epoch, states.values())
            self._file.give_back()
            return lost

    def statistics(self, log: str) -> LogStatistics:
        with self._lock:
            state = self._states[log]
            head = None
            if self._file.is_open:
                head = self._reading(
                    lambda connection: connection.execute(
                        "SELECT newest_ns FROM rows WHERE position >= ? ORDER BY position LIMIT 1",
                        (state.base,),
                    ).fetchone()
                )
            return self._states[log].statistics(head[0] if head and state.rows else None)

    @property
    def state(self) -> StoreState:
        return self._file.state

    def disk_bytes(self) -> int:
        """Everything the store has on disk, except for damaged files that were set aside."""
        return self._file.disk_bytes()

    def tidy(self) -> list[LostRange]:
        """For idle times: expires what is too old, and gives unused space back."""
        lost = self.commit(Transaction())
        with self._lock:
            self._file.shrink()
        return lost

    def close(self) -> None:
        with self._lock:
            if self._file.is_open:
                self._file.shrink()
            self._file.close()
            self._mark.close()
            self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _changed(before: catalog.States, after: catalog.States) -> list[LogState]:
    return [state for name, state in after.items() if state.record() != before[name].record()]
