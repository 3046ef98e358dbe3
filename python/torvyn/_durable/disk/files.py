"""The files of a store: its connection, WAL, ballast and mark, and their failures.

After a failed write or sync the transaction is rolled back and the connection is kept: the next
transaction writes the same frames of the WAL again, so nothing that an unsuccessful `fsync` left in
the page cache is ever trusted. A new process cannot know which frames those are; therefore opening
a store copies the whole WAL to the database and syncs it.

The ballast is a reserve of disk space, freed when the disk is full: deleting what was delivered
also writes, so that without a reserve a full disk could not be drained.

The mark is a small file with the positions of the logs, by which lost commits are noticed: SQLite
ignores everything after a damaged frame of its WAL. It is not synced: a kill leaves it complete,
and after a power failure it may be old, which only means that less is noticed. It is never ahead of
what was durable.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from torvyn._durable.backend import StoreState
from torvyn._durable.disk.database import (
    FRAME_BYTES,
    PAGE_BYTES,
    STORE_ERRORS,
    Budget,
    StoreError,
    checkpoint_wal,
    connect,
    file_bytes,
    in_use,
    not_a_store,
    reason_of,
    unavailable,
)
from torvyn._durable.disk.log import LogState
from torvyn._io.files import FileLock, Locked, sync_folder
from torvyn.errors import StoreUnavailable

if TYPE_CHECKING:
    from torvyn._native import Database


class Ballast:
    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path, self._size_bytes = path, size_bytes
        self.is_there = False
        """As far as this process knows: asking the disk would take time in every commit."""

    def create(self) -> bool:
        """Reserves the space; False if there is too little."""
        if self.is_there:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size_bytes)
                # A larger one is left from higher limits.
                os.ftruncate(descriptor, self._size_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            self.free()
            return False
        self.is_there = True
        return True

    def free(self) -> None:
        self.is_there = False
        with contextlib.suppress(OSError):
            os.unlink(self._path)


_MAX_BYTES: Final = 64 * 1024
_HEADER: Final = b"TVHW1 "


@dataclass(frozen=True, slots=True)
class Mark:
    """`logs`: by name the id, `next` and `acknowledged`."""

    epoch: str
    logs: dict[str, tuple[int, int, int]]


class HighWaterFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Mark | None:
        """The last mark; None if there is none or it is damaged."""
        try:
            with self.path.open("rb") as file:
                return _decode(file.read(_MAX_BYTES))
        except OSError:
            return None

    def encode(self, epoch: str, states: Iterable[LogState]) -> bytes:
        """The mark of these states, which is written after their commit."""
        logs = {s.name: (s.id, s.next, s.acknowledged) for s in states}
        text = json.dumps([epoch, logs]).encode()
        return b"%s%08x %08x " % (_HEADER, zlib.crc32(text), len(text)) + text


def _decode(record: bytes) -> Mark | None:
    try:
        crc, length = int(record[6:14], 16), int(record[15:23], 16)
        text = record[24 : 24 + length]
        if not record.startswith(_HEADER) or zlib.crc32(text) != crc:
            return None
        epoch, logs = json.loads(text)
        return Mark(epoch, {name: (id, next, acked) for name, (id, next, acked) in logs.items()})
    except ValueError:
        return None


logger = logging.getLogger("torvyn.durable")

_SHRINK_PAGES: Final = 512
_SPARSE: Final = 8
"""Free pages are given back from `_SHRINK_PAGES` on, if an eighth of the file is used."""
_SHRINK_INTERVAL_S: Final = 10.0
_COMPANIONS: Final = (".ballast", ".mark")
"""They are made when the database is complete."""
_SUFFIXES: Final = ("", "-wal", "-shm", *_COMPANIONS, ".lock")


@dataclass(slots=True)
class OpenTransaction:
    connection: Database
    mark: bytes | None = None
    """Written beside the database once the transaction is durable."""


class StoreFile:
    def __init__(self, path: Path, budget: Budget, mark: Path) -> None:
        self.path, self.budget = path, budget
        self._mark = mark
        self.state = StoreState()
        self.is_damaged = False
        """SQLite refuses the file; it must be salvaged before the next use."""
        self._ballast = Ballast(path.with_name(path.name + ".ballast"), budget.ballast_bytes)
        self._connection: Database | None = None
        self._wal_used = 0
        self._next_shrink_s = 0.0

    @property
    def connection(self) -> Database:
        if self._connection is None:
            raise StoreUnavailable("io", f"`{self.path}` is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Raises `StoreUnavailable`; with `is_damaged` set if SQLite refuses the file."""
        try:
            if self.path.exists() and not self.path.is_file():
                raise not_a_store("it is not a file")
            self._connection = connect(self.path, self._mark)
            checkpoint_wal(self._connection, truncate=True)
            sync_folder(self.path.parent)
        except STORE_ERRORS as error:
            self.close()
            raise self._degraded(error) from error
        self._wal_used = 0
        self._ballast.create()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def transaction(self, wal_bytes: int) -> Iterator[OpenTransaction]:
        """Commits what the block does, or nothing. `wal_bytes` is what it adds to the WAL."""
        connection = self.connection
        try:
            self._make_wal_room(wal_bytes)
            connection.execute("BEGIN IMMEDIATE", is_quick=True)
            work = OpenTransaction(connection)
            yield work
            connection.commit(work.mark)
        except STORE_ERRORS as error:
            self._roll_back()
            raise self._degraded(error) from error
        except BaseException:
            self._roll_back()
            raise
        self._wal_used = connection.wal_pages * FRAME_BYTES

    def _make_wal_room(self, size_bytes: int) -> None:
        """The WAL starts again from its beginning if this does not fit any more."""
        if self._wal_used + size_bytes > self.budget.wal_bytes:
            checkpoint_wal(self.connection, truncate=False)
            self._wal_used = 0

    def _roll_back(self) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()

    def failed(self, error: StoreError) -> StoreUnavailable:
        """For errors outside of a transaction."""
        self._roll_back()
        return self._degraded(error)

    def _degraded(self, error: StoreError) -> StoreUnavailable:
        reason = reason_of(error)
        failure = unavailable(self.path, error)
        if reason == "full":
            self._ballast.free()
        if reason == "corrupt":
            self.close()
            self.is_damaged = True
        if self.state.name == "ok":
            logger.error("%s", failure.message, extra={"event": "durable.degraded"})
        self.state = StoreState("degraded", failure.message)
        return failure

    def _recover(self) -> None:
        """The store is in order again once the reserve is restored."""
        if not self._ballast.is_there:
            self._give_back(self.budget.ballast_bytes // PAGE_BYTES + 1)
        if self._ballast.create():
            self.state = StoreState()
            logger.warning("`%s` can be written again", self.path)

    def require_space(self) -> None:
        """Appends need the reserve to be there: it is for deleting what was delivered."""
        if not self._ballast.is_there:
            with self._keeping_what_is_committed():
                self._give_back()
        if not self._ballast.create():
            full = "no space left on the device"
            self.state = StoreState("degraded", full)
            raise StoreUnavailable("full", f"cannot write to `{self.path}`: {full}")

    @property
    def has_companions(self) -> bool:
        """Whether there are files that come after the database."""
        name = self.path.name
        return any(self.path.with_name(name + each).exists() for each in _COMPANIONS)

    @property
    def has_reserve(self) -> bool:
        return self._ballast.is_there

    def used_bytes(self) -> int:
        """Pages of the database that are in use, inside a transaction too."""
        free, pages = self._pages()
        return (pages - free) * PAGE_BYTES

    def _pages(self) -> tuple[int, int]:
        """The free pages, and all."""
        [(free,)] = self.connection.execute("PRAGMA freelist_count", is_quick=True)
        [(pages,)] = self.connection.execute("PRAGMA page_count", is_quick=True)
        return free, pages

    def disk_bytes(self) -> int:
        """Everything the store has on disk, except for damaged files that were set aside."""
        name = self.path.name
        return sum(file_bytes(self.path.with_name(name + suffix)) for suffix in _SUFFIXES)

    def maintain(self, now_s: float) -> None:
        """After a commit that worked. Failures only mean: not now."""
        if not self.is_open:
            return
        with self._keeping_what_is_committed():
            if self.state.name != "ok":
                self._recover()
            if now_s >= self._next_shrink_s:
                free, pages = self._pages()
                # Moving pages costs writes, so the file is left alone until it is nearly empty.
                if free >= _SHRINK_PAGES and (pages - free) * _SPARSE <= pages:
                    self._next_shrink_s = now_s + _SHRINK_INTERVAL_S
                    self._give_back()

    def shrink(self) -> None:
        """For idle times and the end: gives space back if there is a quarter of it."""
        with self._keeping_what_is_committed():
            free, pages = self._pages()
            self._give_back(None if free * 4 >= pages else 0)

    @contextlib.contextmanager
    def _keeping_what_is_committed(self) -> Iterator[None]:
        try:
            yield
        except STORE_ERRORS as error:
            self.failed(error)

    def _give_back(self, pages: int | None = None) -> None:
        """Returns free pages, and the WAL, to the file system."""
        connection = self.connection
        step = max(self.budget.wal_bytes // FRAME_BYTES // 4, 16)
        left = self._pages()[0] if pages is None else min(pages, self._pages()[0])
        while left > 0:
            self._make_wal_room(step * 3 * FRAME_BYTES)
            connection.execute(f"PRAGMA incremental_vacuum({min(left, step)})")
            self._wal_used = connection.wal_pages * FRAME_BYTES
            left -= step
        checkpoint_wal(connection, truncate=True)
        self._wal_used = 0


def lock_store(path: Path) -> FileLock:
    """One process per store. Raises `durable.in-use` if another one, or another store of this one,
    has it."""
    lock = FileLock(path.with_name(path.name + ".lock"), create=0o600, names_owner=True)
    try:
        return lock.acquire()
    except Locked as error:
        raise in_use(path, error.pid) from None
