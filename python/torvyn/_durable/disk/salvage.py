"""Copies what is readable from a damaged database, and looks into a store without changing it.

The damaged file is renamed to `NAME.corrupt-N` and kept for people to look at; only the newest one
is. Rows are read by ranges of their keys: a range that SQLite cannot read is split, until the
unreadable rows are found. What is missing then is noticed by whoever reads the log, as a gap.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from torvyn import _native
from torvyn._durable.backend import LogStatistics
from torvyn._durable.disk import catalog, log
from torvyn._durable.disk import states as checkpoints
from torvyn._durable.disk.database import (
    PAGE_BYTES,
    SEQUENCE_BITS,
    STORE_ERRORS,
    Budget,
    check_schema,
    check_version,
    checkpoint_wal,
    connect,
    crc,
    file_bytes,
    reason_of,
    wal_path,
)
from torvyn._durable.disk.files import HighWaterFile, Mark, lock_store
from torvyn._durable.disk.log import LogState, is_intact
from torvyn._io.files import sync_folder
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn._native import Database

logger = logging.getLogger("torvyn.durable")

_MAX_PROBES: Final = 20_000
_PAGE_BYTES: Final = 1024 * 1024
_HEADER_COUNTS: Final = slice(28, 40)
"""Of page 1: the number of pages, and the free list, which is not used again."""


def salvage(path: Path, mark: Mark | None) -> None:
    """Replaces a database that SQLite refuses by a new one with what could be read."""
    unfinished = _unfinished(path)
    unfinished.touch()
    aside = _next_name(path)
    for suffix in ("", "-wal"):
        # A WAL that stayed would be taken for that of the new database.
        with contextlib.suppress(FileNotFoundError):
            os.rename(path.with_name(path.name + suffix), Path(f"{aside}{suffix}"))
    sync_folder(path.parent)
    logger.error("`%s` is damaged; it is kept as `%s`", path, aside.name)
    finish_salvage(path, mark)


def finish_salvage(path: Path, mark: Mark | None) -> None:
    """Also continues a salvage that was interrupted."""
    unfinished = _unfinished(path)
    if not unfinished.exists():
        return
    for file in (unfinished, wal_path(unfinished)):
        file.unlink(missing_ok=True)
    kept = _kept(path)
    if not path.exists() and kept:
        unfinished.touch()
        copied = _copy(kept[-1], unfinished, mark)
        logger.warning("copied %d rows from `%s`", copied, kept[-1].name)
        os.rename(unfinished, path)
        sync_folder(path.parent)
        for old in kept[:-1]:
            _remove(old)


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + ".salvage")


def _kept(path: Path) -> list[Path]:
    """The damaged files, oldest first."""
    name = re.compile(re.escape(path.name) + r"\.corrupt-(\d+)")
    found = [(int(m[1]), p) for p in path.parent.iterdir() if (m := name.fullmatch(p.name))]
    return [path for _, path in sorted(found)]


def _next_name(path: Path) -> Path:
    kept = _kept(path)
    number = int(kept[-1].name.rpartition("-")[2]) + 1 if kept else 1
    return path.with_name(f"{path.name}.corrupt-{number}")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    wal_path(path).unlink(missing_ok=True)


def _copy(damaged: Path, target: Path, mark: Mark | None) -> int:
    new = connect(target)
    try:
        new.execute("BEGIN IMMEDIATE")
        copied = 0
        if damaged.is_file() and (old := _open_damaged(damaged, new)) is not None:
            try:
                copied = _Copier(old, new, mark).copy()
            finally:
                with contextlib.suppress(*STORE_ERRORS):
                    old.close()
        new.execute("COMMIT")
        checkpoint_wal(new, truncate=True)
    finally:
        new.close()
    return copied


def _open_damaged(path: Path, fresh: Database) -> Database | None:
    """Replaces page 1 if SQLite cannot read the schema: it is the same in every store."""
    for repair in (False, True):
        if repair:
            _replace_first_page(path, fresh)
        old = _native.Database(path.absolute())
        try:
            old.execute("PRAGMA locking_mode = EXCLUSIVE")
            check_schema(old)
        except STORE_ERRORS as error:
            old.close()
            if reason_of(error) != "corrupt":
                raise
        else:
            return old
    return None


def _replace_first_page(path: Path, fresh: Database) -> None:
    page = bytearray(fresh.serialize()[:PAGE_BYTES])
    pages = file_bytes(path) // PAGE_BYTES
    page[_HEADER_COUNTS] = pages.to_bytes(4, "big") + bytes(8)
    with path.open("r+b") as file:
        file.write(page)


class _Copier:
    def __init__(self, old: Database, new: Database, mark: Mark | None) -> None:
        self._old, self._new, self._mark = old, new, mark
        self._probes = 0

    def copy(self) -> int:
        copied, ends = 0, {}
        for row in self._rows(0, (1 << 62) - 1):
            if is_intact(row):
                self._new.execute("INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                ends[row[0] >> SEQUENCE_BITS] = row[0] + row[1]
                copied += 1
        self._copy_records("store", "name", lambda r: crc(*r[:-1]) == r[-1])
        self._copy_records("holes", "position", lambda r: crc(*r[:-1]) == r[-1])
        self._copy_records("checkpoints", "rowid", lambda r: True)
        checkpoints.discard_damaged(self._new)
        self._copy_logs(ends)
        return copied

    def _rows(self, low: int, high: int) -> Iterator[tuple[Any, ...]]:
        """The readable rows of a range of keys."""
        query = "SELECT * FROM rows WHERE position BETWEEN ? AND ? ORDER BY position"
        is_last = False
        try:
            while not is_last:
                self._probes += 1
                rows, is_last = self._old.page(query, (low, high), _PAGE_BYTES)
                yield from rows
                low = rows[-1][0] + 1 if rows else low
        except STORE_ERRORS:
            if low < high and self._probes < _MAX_PROBES:
                middle = (low + high) // 2
                yield from self._rows(low, middle)
                yield from self._rows(middle + 1, high)

    def _copy_records(self, table: str, key: str, is_good: Any) -> None:
        with contextlib.suppress(*STORE_ERRORS):
            for record in self._old.execute(f"SELECT * FROM {table} ORDER BY {key}"):
                if is_good(record):
                    marks = ",".join("?" * len(record))
                    self._new.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", record)

    def _copy_logs(self, ends: dict[int, int]) -> None:
        """Logs by their records; otherwise by the mark, which has their names."""
        states: dict[int, LogState] = {}
        with contextlib.suppress(*STORE_ERRORS):
            for record in self._old.execute("SELECT * FROM logs"):
                if crc(*record[:-1]) == record[-1]:
                    id, name, *fields, _ = record
                    states[id] = LogState(id, name, None, 0, 0, *fields)
        for name, (id, next, acknowledged) in (self._mark.logs if self._mark else {}).items():
            states.setdefault(id, LogState(id, name, None, next=next, acknowledged=acknowledged))
        for state in states.values():
            end = ends.get(state.id, state.base) - state.base
            state.next = max(state.next, end)
            values = state.record_with_crc()
            self._new.execute(
                "INSERT OR IGNORE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values
            )
        for id in set(ends) - set(states):
            self._new.execute(
                "DELETE FROM rows WHERE position BETWEEN ? AND ?",
                (id << SEQUENCE_BITS, ((id + 1) << SEQUENCE_BITS) - 1),
            )


@dataclass(slots=True)
class StoreReport:
    """`damaged`: the flow starts, and reports what is lost. `unreadable`: the flow starts with what
    can be copied from the file."""

    state: Literal["absent", "in-use", "intact", "damaged", "unreadable"]
    elements: dict[str, int] = field(default_factory=dict)
    """By log: neither settled nor lost."""
    segments: list[str] = field(default_factory=list)
    """Those with a saved state."""
    problems: list[str] = field(default_factory=list)


def inspect_store(path: Path, *, is_quick: bool = False) -> StoreReport:
    """Reads and checks every record, which takes as long as reading the file does. `is_quick`:
    only what waits."""
    if not path.exists():
        return StoreReport("absent")
    if not path.is_file():
        return StoreReport("unreadable", problems=["it is not a file"])
    try:
        owner = lock_store(path)
    except FlowError as error:
        return StoreReport("in-use", problems=[error.message])
    report = StoreReport("intact")
    try:
        with _read_only(path) as connection:
            _inspect(connection, path, report, is_quick)
    except (*STORE_ERRORS, FlowError) as error:
        return StoreReport("unreadable", problems=[str(error)])
    finally:
        owner.release()
    if report.problems:
        report.state = "damaged"
    return report


def log_statistics(path: Path) -> dict[str, LogStatistics] | None:
    """What waits in each log, without looking into the rows; None while a flow uses the store.

    Raises `durable.newer-version`, and `durable.damaged` for what cannot be read.
    """
    if not path.exists():
        return {}
    try:
        owner = lock_store(path)
    except FlowError:
        return None
    try:
        with _read_only(path) as connection:
            states = catalog.load(connection, {}, Budget.of(()), None)
            return {
                name: state.statistics(log.oldest_ns(connection, state))
                for name, state in states.items()
            }
    except STORE_ERRORS as error:
        raise FlowError(
            "durable.damaged",
            f"the stored elements in `{path}` cannot be read: {error}",
            hint="start the flow: it copies what is readable, and reports the rest as lost",
        ) from error
    finally:
        owner.release()


@contextlib.contextmanager
def _read_only(path: Path) -> Iterator[Database]:
    connection = _native.Database(path.absolute(), is_read_only=True)
    try:
        check_version(connection, path)
        check_schema(connection)
        yield connection
    finally:
        connection.close()
        # Left by SQLite, because a reader does not remove it.
        path.with_name(path.name + "-shm").unlink(missing_ok=True)


def _inspect(connection: Database, path: Path, report: StoreReport, is_quick: bool) -> None:
    states = catalog.load(connection, {}, Budget.of(()), None)
    mark = HighWaterFile(path.with_name(path.name + ".mark")).read()
    report.elements = {state.name: state.elements for state in states.values()}
    segments = checkpoints.segments(connection)
    saved = {segment: checkpoints.load(connection, segment) for segment in segments}
    report.segments = [segment for segment, each in saved.items() if each and each.parts]
    if is_quick:
        return
    for state in states.values():
        report.problems += _problems(connection, state)
        known = mark.logs.get(state.name) if mark is not None else None
        if known is not None and known[1] > state.next:
            report.problems.append(
                f"log `{state.name}`: the elements {state.next} to {known[1] - 1} are missing"
            )
    for segment, checkpoint in saved.items():
        if checkpoint is None:
            report.problems.append(f"the checkpoint of segment `{segment}` is damaged")


def _problems(connection: Database, state: LogState) -> Iterator[str]:
    after, is_last = state.acknowledged, False
    while not is_last:
        page = log.read(connection, state, after, 1 << 20)
        for first, last in page.gaps:
            yield f"log `{state.name}`: the elements {first} to {last} are damaged or missing"
        is_last = page.is_last
        after = page.rows[-1].last if page.rows else after
