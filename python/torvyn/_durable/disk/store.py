"""The store of a flow: commits, reads, limits.

All methods may be called from any thread; a commit excludes the others. A call costs a few
microseconds, a commit one `fsync`, and about every 8 MiB a checkpoint of the WAL.

In a transaction acknowledgements come first, because they make room. Then rows that are too old are
dropped, then the new ones are appended under the policy of their log. The open database reconnects
after failures, and salvages damage.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from torvyn._durable.backend import (
    Append,
    ClockStep,
    LogOptions,
    LogStatistics,
    LostRange,
    Row,
    StoreState,
    Transaction,
)
from torvyn._durable.disk import catalog, log
from torvyn._durable.disk import log as log_rows
from torvyn._durable.disk import states as checkpoints
from torvyn._durable.disk.clock import AgeClock, boot_number, uptime_s
from torvyn._durable.disk.database import (
    FRAME_BYTES,
    STORE_ERRORS,
    Budget,
    file_bytes,
    row_cost,
    row_too_large,
    unavailable,
    wal_cost,
)
from torvyn._durable.disk.files import HighWaterFile, Mark, StoreFile, lock_store
from torvyn._durable.disk.log import LogState, Withdraw
from torvyn._durable.disk.salvage import finish_salvage, salvage
from torvyn._durable.state_log import Checkpoint, SavedState
from torvyn.errors import StoreUnavailable

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")

_EXPIRY_INTERVAL_NS: Final = 1_000_000_000


class Admission:
    def __init__(self, file: StoreFile, clock: AgeClock) -> None:
        self._file, self._clock = file, clock
        self._next_expiry_ns = 0
        self._segments: set[str] | None = None
        """Those that have a state; None until somebody asks."""

    def wal_bytes(self, states: catalog.States, transaction: Transaction) -> int:
        """What a transaction adds to the WAL, about. Raises if it can never fit."""
        size = sum(len(new.body) for new in transaction.appends)
        limit = min((states[new.log].row_limit_bytes for new in transaction.appends), default=0)
        if size > limit:
            raise row_too_large(transaction.appends[0].log, size, limit)
        cost = wal_cost(sum(row_cost(len(new.body)) for new in transaction.appends))
        cost += checkpoints.wal_bytes(transaction.checkpoint)
        settled = {*transaction.acknowledged, *transaction.settled_ranges, *transaction.expired}
        deleted = sum(states[name].rows for name in settled)
        return cost + min(deleted, self._file.budget.max_deleted_rows) * FRAME_BYTES

    def apply(
        self, connection: Database, states: catalog.States, transaction: Transaction
    ) -> list[LostRange]:
        lost: list[LostRange] = []
        at_ns = self._clock.now_ns()
        for name, expired in transaction.expired.items():
            lost += log.expire(connection, states[name], expired, at_ns)
        for name, up_to in transaction.acknowledged.items():
            if up_to >= states[name].next:
                raise ValueError(f"log `{name}` ends before {up_to}")
            log.settle(connection, states[name], up_to)
        for name, ranges in transaction.settled_ranges.items():
            for first, last in ranges:
                log.settle_range(connection, states[name], first, last)
        log.delete_settled(connection, states.values(), self._file.budget.max_deleted_rows)
        lost += self._expire(connection, states)
        for new in transaction.appends:
            lost += self._append(connection, states[new.log], new)
        if transaction.checkpoint is not None:
            checkpoints.save(connection, transaction.checkpoint)
            if self._segments is not None:
                self._segments.add(transaction.checkpoint.segment)
        return lost

    def _append(self, connection: Database, state: LogState, new: Append) -> list[LostRange]:
        if new.first != state.next or new.count < 1:
            raise ValueError(f"log `{state.name}` continues at {state.next}, not at {new.first}")
        cost, at_ns, lost = row_cost(len(new.body)), self._clock.now_ns(), []

        def fits(_: object = None) -> bool:
            return self.fits(state, cost)

        policy = state.options.backpressure if state.options else "error"
        if policy == "drop-oldest" and not fits():
            lost = log.drop_oldest(connection, state, fits, "dropped", at_ns)
        if fits():
            log.append(connection, state, new, self._clock)
        elif policy in ("block", "error"):
            raise StoreUnavailable("limit", f"log `{state.name}` in `{self._file.path}` is full")
        else:
            state.next = new.first + new.count
            lost += log.lose(connection, state, new.first, state.next - 1, "dropped", at_ns)
        return lost

    def fits(self, state: LogState, cost: int) -> bool:
        """The states of components have no limit, and take no room from the elements."""
        if state.cost + cost > state.limit_bytes:
            return False
        excess = self._file.used_bytes() + cost - self._file.budget.database_bytes
        return excess <= 0 or excess <= self._state_bytes()

    def forget_segments(self) -> None:
        """Others have states now."""
        self._segments = None

    def _state_bytes(self) -> int:
        connection = self._file.connection
        if self._segments is None:
            self._segments = set(checkpoints.segments(connection))
        return sum(checkpoints.space(connection, each) for each in self._segments)

    def _expire(self, connection: Database, states: catalog.States) -> list[LostRange]:
        """Drops rows that are too old; looks once per second."""
        clock, lost = self._clock, []
        if clock.uptime_ns() < self._next_expiry_ns:
            return []
        self._next_expiry_ns = clock.uptime_ns() + _EXPIRY_INTERVAL_NS
        at_ns = clock.now_ns()
        if step_ns := clock.step_ns():
            catalog.save_clock_step(connection, at_ns, clock.boot, step_ns)
            logger.warning("the clock was set by %+.3f s", step_ns / 1e9)
        for state in states.values():
            if state.options is None or state.options.max_age_s is None:
                continue
            age_ns = state.options.max_age_s * 1e9

            def is_young(head: log.Head, age_ns: float = age_ns) -> bool:
                return not clock.is_older(age_ns, head.newest_ns, head.boot, head.uptime_ns)

            lost += log.drop_oldest(connection, state, is_young, "expired", at_ns)
        return lost


_ATTEMPTS: Final = 3
SMALL_WAL_BYTES: Final = 16 * FRAME_BYTES
"""For a transaction without rows."""
T = TypeVar("T")


class Session:
    def __init__(self, path: Path, logs: Mapping[str, LogOptions], clock: AgeClock) -> None:
        self.epoch = ""
        self.states: catalog.States = {}
        self.found_lost: list[LostRange] = []
        """What was missing when the database was opened."""
        self._attempted: catalog.States = {}
        """What the last transaction made of the states. It may be durable although it failed."""
        self._logs, self._clock = dict(logs), clock
        self._budget = Budget.of(options.max_bytes for options in logs.values())
        self._mark = HighWaterFile(path.with_name(path.name + ".mark"))
        self.file = StoreFile(path, self._budget, self._mark.path)

    def attempt(self, work: Callable[[Database], T]) -> T:
        """Does something with the database; again if that turned out to be damaged."""
        for attempt in range(_ATTEMPTS):
            self.ready()
            try:
                return work(self.file.connection)
            except STORE_ERRORS as error:
                failure = self.file.failed(error)
            except StoreUnavailable as error:
                failure = error
            if not self.file.is_damaged or attempt == _ATTEMPTS - 1:
                raise failure
        raise AssertionError

    def ready(self) -> None:
        """Reconnects after a failure. What is damaged is salvaged first."""
        if self.file.is_open:
            return
        try:
            finish_salvage(self.file.path, self._mark.read())
            self._report_missing()
            for attempt in range(_ATTEMPTS):
                if self.file.is_damaged:
                    salvage(self.file.path, self._mark.read())
                    self.file.is_damaged = False
                had_reserve = self.file.has_reserve
                try:
                    self._connect()
                    return
                except StoreUnavailable:
                    # A full disk: the reserve was freed.
                    can_retry = self.file.is_damaged or self.file.has_reserve != had_reserve
                    if not can_retry or attempt == _ATTEMPTS - 1:
                        raise
        except STORE_ERRORS as error:
            raise self.file.failed(error) from error

    def _connect(self) -> None:
        self.file.open()
        mark, before = self._mark.read(), self.states
        at_ns = self._clock.now_ns()
        with self.file.transaction(SMALL_WAL_BYTES) as work:
            connection = work.connection
            epoch = catalog.load_epoch(connection, mark)
            states = catalog.load(connection, self._logs, self._budget, mark)
            for name, old in before.items():
                if states[name].next > old.next:
                    catalog.undo_appends(connection, states[name], old.next)
                states[name].read_up_to = old.read_up_to
                states[name].withdraw = old.withdraw
                last = self._attempted.get(name, old)
                known = last if states[name].expired == last.expired else old
                states[name].expired_behind_reader = known.expired_behind_reader
            lost = catalog.apply_mark(connection, states, epoch, mark, at_ns)
            lost += catalog.count_gaps(connection, states, at_ns)
            catalog.save(connection, states.values())
            work.mark = self._mark.encode(epoch, states.values())
        self.epoch, self.states = epoch, states
        self._report(lost, mark)
        self.delete_settled()
        self.file.maintain(self._clock.uptime_ns() / 1e9)

    def _report(self, lost: list[LostRange], mark: Mark | None) -> None:
        self.found_lost += lost
        for each in lost:
            text = "`%s`: %d elements of log `%s` are missing: they count as dropped"
            extra = {"event": "durable.lost", "first": each.first, "last": each.last}
            logger.error(text, self.file.path, each.count, each.log, extra=extra)
        if mark is None and any(state.next for state in self.states.values()):
            text = "`%s` is missing or damaged: without it, lost commits are not noticed"
            logger.warning(text, self._mark.path, extra={"event": "durable.no-mark"})

    def _report_missing(self) -> None:
        """The database is gone, or empty, and the files beside it are not."""
        path = self.file.path
        if not file_bytes(path) and not path.is_dir() and self.file.has_companions:
            text = "`%s` is missing or empty: what was stored in it is lost, %s"
            known = "and counts as dropped" if self._mark.read() else "and its amount is not known"
            logger.error(text, path, known, extra={"event": "durable.missing"})

    @contextlib.contextmanager
    def transaction(self, wal_bytes: int) -> Iterator[tuple[Database, catalog.States]]:
        """Commits what the block does, with what it changes of the states, or nothing of it."""
        states = {name: state.copy() for name, state in self.states.items()}
        with self.file.transaction(wal_bytes) as work:
            yield work.connection, states
            catalog.save(work.connection, _changed(self.states, states))
            work.mark = self._mark.encode(self.epoch, states.values())
            self._attempted = states
        self.states = states

    def delete_settled(self) -> None:
        """Deletes what one transaction could not. A failure only means: later."""
        max_rows = self._budget.max_deleted_rows
        while any(state.has_settled_rows for state in self.states.values()):
            try:
                with self.transaction((max_rows + 16) * FRAME_BYTES) as (connection, states):
                    log.delete_settled(connection, states.values(), max_rows)
            except StoreUnavailable:
                return

    def close(self) -> None:
        if self.file.is_open:
            self.file.shrink()
        self.file.close()


def _changed(before: catalog.States, after: catalog.States) -> list[LogState]:
    return [state for name, state in after.items() if state.record() != before[name].record()]


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
