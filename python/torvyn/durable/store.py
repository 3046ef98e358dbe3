"""The store of a flow: commits, reads, limits.

All methods may be called from any thread; a commit excludes the others. A call costs a few
microseconds, a commit one `fsync`, and about every 8 MiB a checkpoint of the WAL.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from torvyn.durable import catalog, checkpoints, log_rows
from torvyn.durable.admission import Admission
from torvyn.durable.clock import AgeClock, boot_number, uptime_s
from torvyn.durable.disk.budget import row_cost, wal_cost
from torvyn.durable.disk.store_file import lock_store
from torvyn.durable.failures import StoreUnavailable, unavailable
from torvyn.durable.log_state import Withdraw
from torvyn.durable.records import (
    ClockStep,
    LogOptions,
    LogStatistics,
    LostRange,
    Row,
    StoreState,
    Transaction,
)
from torvyn.durable.session import SMALL_WAL_BYTES, Session
from torvyn.durable.state_log import Checkpoint, SavedState

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")


def _give_up(error: StoreUnavailable) -> None:
    raise error


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
        self._clock = AgeClock(now, uptime, boot_number())
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._owner = lock_store(path)
        except OSError as error:
            raise unavailable(path, error) from error
        self._session = Session(path, logs, self._clock)
        self._file = self._session.file
        self._admission = Admission(self._file, self._clock)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        logs: Mapping[str, LogOptions],
        *,
        now: Callable[[], float] = time.time,
        uptime: Callable[[], float] = uptime_s,
        retry: Callable[[StoreUnavailable], None] = _give_up,
    ) -> Self:
        """Opens the store, whatever its files contain.

        Raises `StoreUnavailable` if the disk does not work, `durable.in-use` if another process
        has the store, and `durable.newer-version` if a newer version has written it. `retry` is
        given what the disk does wrong: it waits before the next attempt, or raises.
        """
        store: Self | None = None
        try:
            while True:
                try:
                    store = store or cls(Path(path), logs, now, uptime)
                    store._session.ready()
                    return store
                except StoreUnavailable as error:
                    retry(error.at_start())
        except BaseException:
            if store is not None:
                store.close()
            raise

    @property
    def epoch(self) -> str:
        """Random, from the creation of the store on: with a sequence number, a unique key."""
        return self._session.epoch

    @property
    def _states(self) -> catalog.States:
        return self._session.states

    def commit(self, transaction: Transaction) -> list[LostRange]:
        """Makes a transaction durable, and returns what a limit made it drop.

        Raises `StoreUnavailable`, and then nothing of it is stored: `full` and `io` if the disk
        fails, `limit` if a log with `block` or `error` has no room for its appends. To make room,
        commit acknowledgements alone. Raises `StateGoneError` if the checkpoint continues what is
        not stored any more: it must be whole.
        """
        with self._lock:
            return self._session.attempt(lambda _: self._commit(transaction))

    def _commit(self, transaction: Transaction) -> list[LostRange]:
        if transaction.appends:
            self._file.require_space()
        wal_bytes = self._admission.wal_bytes(self._states, transaction)
        with self._session.transaction(wal_bytes) as (connection, states):
            lost = self._admission.apply(connection, states, transaction)
        self._session.delete_settled()
        self._file.maintain(self._clock.uptime_ns() / 1e9)
        return lost

    def has_room(self, log: str, size_bytes: int) -> bool:
        """Whether a row with a body of this size would be stored now."""
        cost = row_cost(size_bytes)
        with self._lock:
            return self._session.attempt(
                lambda _: self._file.has_reserve and self._admission.fits(self._states[log], cost)
            )

    def max_row_bytes(self, log: str) -> int:
        """The largest body that `commit` takes, and the most of all bodies in one transaction."""
        return self._states[log].row_limit_bytes

    def read(self, log: str, after: int, max_bytes: int) -> list[Row]:
        """The rows with elements behind `after`, oldest first, until `max_bytes` are reached.

        At least one if there is any. Damaged rows are left out, and are in `lost` from now on.
        """
        with self._lock:
            return self._session.attempt(
                lambda connection: self._read(connection, log, after, max_bytes)
            )

    def _read(self, connection: Database, log: str, after: int, max_bytes: int) -> list[Row]:
        page = log_rows.read(connection, self._states[log], after, max_bytes)
        if page.damaged or page.gaps:
            self._lose(log, page.damaged, page.gaps, "its checksum does not fit")
        state = self._states[log]
        if page.rows:
            state.read_up_to = max(state.read_up_to, page.rows[-1].last)
        return page.rows

    def _lose(
        self, log: str, positions: list[int], ranges: list[tuple[int, int]], reason: str
    ) -> None:
        at_ns = self._clock.now_ns()
        with self._session.transaction(wal_cost(0) + SMALL_WAL_BYTES) as (connection, states):
            state = states[log]
            for position in positions:
                log_rows.quarantine(connection, state, position, reason)
            for first, last in ranges:
                log_rows.lose(connection, state, first, last, "corrupt", at_ns)
        logger.error("`%s`: damaged rows in log `%s`: %s", self.path, log, ranges or reason)

    def quarantine(self, log: str, first: int, reason: str) -> list[LostRange]:
        """Takes a row out of the log whose body the caller cannot decode."""

        def move(connection: Database) -> list[LostRange]:
            state, before = self._states[log], set(self._states[log].lost())
            rows = log_rows.read(connection, state, first - 1, 1).rows
            if rows and rows[0].first == first:
                self._lose(log, [state.base + first], [(first, rows[0].last)], reason)
            return [lost for lost in self._states[log].lost() if lost not in before]

        with self._lock:
            return self._session.attempt(move)

    def set_withdraw(self, log: str, withdraw: Withdraw) -> None:
        """Limits then drop rows that were read as well, if the reader can give them back. It is
        asked in a commit: if that fails, the rows are still there."""
        with self._lock:
            self._states[log].withdraw = withdraw

    def unsettled(self, log: str, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a range that are neither settled nor lost."""
        with self._lock:
            return list(self._states[log].uncovered(first, last))

    def found_lost(self, log: str) -> int:
        """How many elements were lost before the store was opened, as was noticed then."""
        return sum(each.count for each in self._session.found_lost if each.log == log)

    def log_number(self, log: str) -> int:
        """Which of the store's logs it is, from 0 on. It never changes."""
        return self._states[log].id - 1

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

        def forget(_: Database) -> None:
            with self._session.transaction(SMALL_WAL_BYTES) as (connection, states):
                log_rows.report_holes(connection, states[log], up_to)

        with self._lock:
            self._session.attempt(forget)

    def checkpoint(self, segment: str) -> SavedState | None:
        """What is saved of a segment; None if there is nothing, or if it is damaged."""
        with self._lock:
            return self._session.attempt(lambda connection: checkpoints.load(connection, segment))

    def segments(self) -> list[str]:
        """The segments that have a checkpoint."""
        with self._lock:
            return self._session.attempt(checkpoints.segments)

    def replace_checkpoints(self, old: Iterable[str], new: Iterable[Checkpoint]) -> None:
        """Puts whole checkpoints in the place of those of some segments: the flow is cut into other
        segments."""
        old, new = list(old), list(new)

        def replace(_: Database) -> None:
            wal_bytes = SMALL_WAL_BYTES + sum(map(checkpoints.wal_bytes, new))
            with self._session.transaction(wal_bytes) as (connection, _states):
                for segment in old:
                    checkpoints.discard(connection, segment)
                for each in new:
                    checkpoints.save(connection, each)

        with self._lock:
            self._session.attempt(replace)
            self._admission.forget_segments()

    def logs(self) -> dict[str, LogStatistics]:
        """All logs of the file, with those that the flow no longer has."""
        return {name: self.statistics(name) for name in self._states}

    def discard(self) -> list[LostRange]:
        """Removes all checkpoints and the contents of all logs; sequence numbers continue."""

        def empty(_: Database) -> list[LostRange]:
            wal_bytes = self._file.budget.wal_bytes
            with self._session.transaction(wal_bytes) as (connection, states):
                for segment in checkpoints.segments(connection):
                    checkpoints.discard(connection, segment)
                lost = log_rows.discard(connection, states.values(), self._clock.now_ns())
            self._session.found_lost.clear()
            self._file.shrink()
            return lost

        with self._lock:
            return self._session.attempt(empty)

    def discard_log(self, log: str) -> int:
        """Removes the contents of one log; returns how many elements they were."""

        def empty(_: Database) -> int:
            wal_bytes = self._file.budget.wal_bytes
            with self._session.transaction(wal_bytes) as (connection, states):
                lost = log_rows.discard(connection, [states[log]], self._clock.now_ns())
            self._file.shrink()
            return sum(each.count for each in lost)

        with self._lock:
            return self._session.attempt(empty)

    def statistics(self, log: str) -> LogStatistics:
        with self._lock:
            oldest_ns = None
            if self._file.is_open:
                oldest_ns = self._session.attempt(
                    lambda c: log_rows.oldest_ns(c, self._states[log])
                )
            return self._states[log].statistics(oldest_ns)

    @property
    def stepped_ns(self) -> int:
        """By how much the wall clock was set since the store was opened."""
        return self._clock.stepped_ns

    def clock_steps(self) -> list[ClockStep]:
        """The latest steps of the wall clock by more than a second."""
        with self._lock:
            return self._session.attempt(catalog.clock_steps)

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
            self._session.close()
            self._owner.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
