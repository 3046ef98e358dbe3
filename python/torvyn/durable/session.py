"""The open database with the states of its logs: reconnects after failures, salvages damage."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from torvyn.durable import catalog, log_rows
from torvyn.durable.clock import AgeClock
from torvyn.durable.disk.budget import FRAME_BYTES, Budget
from torvyn.durable.disk.database import file_bytes
from torvyn.durable.disk.high_water import HighWaterFile, Mark
from torvyn.durable.disk.salvage import finish_salvage, salvage
from torvyn.durable.disk.store_file import StoreFile
from torvyn.durable.failures import STORE_ERRORS, StoreUnavailable
from torvyn.durable.log_state import LogState
from torvyn.durable.records import LogOptions, LostRange

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")

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
                    log_rows.delete_settled(connection, states.values(), max_rows)
            except StoreUnavailable:
                return

    def close(self) -> None:
        if self.file.is_open:
            self.file.shrink()
        self.file.close()


def _changed(before: catalog.States, after: catalog.States) -> list[LogState]:
    return [state for name, state in after.items() if state.record() != before[name].record()]
