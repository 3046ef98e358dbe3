"""The schema, a connection with its settings, what a row occupies, and what SQLite's errors mean.

The schema never depends on the logs, so page 1 of every store is the same and can be replaced when
it is damaged. A row's key is the number of its log and its first sequence number. Every record
carries a CRC over all of its fields, because SQLite has no checksums.

The sum of the logs' `max_bytes` limits everything that the store has on disk: the database, its WAL
and the ballast. The WAL and the ballast get a fixed part; the rest is for the pages of the
database, each log having the share that its `max_bytes` is of the sum.

A full disk and a failed write are not the end of a flow: the caller keeps what it has and tries
again. Nothing of a failed transaction is in the store.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from torvyn import _native
from torvyn.errors import FlowError, InvalidInput, Reason, StoreUnavailable

if TYPE_CHECKING:
    from torvyn._native import Database

PAGE_BYTES: Final = 4096
FRAME_BYTES: Final = PAGE_BYTES + 24
"""A page in the WAL."""
_WAL_HEADER_BYTES: Final = 32
_OVERFLOW_BYTES: Final = PAGE_BYTES - 4
_LOCAL_BYTES: Final = PAGE_BYTES - 35
"""Larger records continue on overflow pages."""
_RECORD_BYTES: Final = 64
"""A record without its body, and its cell pointer."""
_MIN_WAL_BYTES: Final = 256 * 1024
_MAX_WAL_BYTES: Final = 8 * 1024 * 1024
_FIXED_PAGES: Final = 24
"""Roots, pointer maps and the tables without bodies."""
_SIDE_FILES_BYTES: Final = 2 * PAGE_BYTES
"""The high-water mark and the lock file."""


@dataclass(frozen=True, slots=True)
class Budget:
    total_bytes: int
    wal_bytes: int
    ballast_bytes: int
    database_bytes: int

    @classmethod
    def of(cls, limits_bytes: Iterable[int]) -> Budget:
        total = sum(limits_bytes)
        wal = min(max(total // 6, _MIN_WAL_BYTES), _MAX_WAL_BYTES)
        # A checkpoint writes at most the pages of the WAL to the database.
        ballast = min(wal // 2 + 16 * PAGE_BYTES, total // 8)
        return cls(total, wal, ballast, total - wal - ballast - _SIDE_FILES_BYTES)

    @property
    def max_deleted_rows(self) -> int:
        """Rows that one transaction may delete: each changes a page, which goes to the WAL."""
        return max(self.wal_bytes // FRAME_BYTES // 4, 8)

    def log_bytes(self, max_bytes: int) -> int:
        """What the rows of a log may occupy."""
        fixed = _FIXED_PAGES * PAGE_BYTES + self.database_bytes // 256
        return (self.database_bytes - fixed) * max_bytes // self.total_bytes

    def row_limit_bytes(self, max_bytes: int) -> int:
        """The largest body, and the most of all in a transaction, which must fit into the WAL."""
        in_wal = self.wal_bytes * 3 // 4 - _WAL_HEADER_BYTES - _FIXED_PAGES * FRAME_BYTES
        pages = min(in_wal // FRAME_BYTES, self.log_bytes(max_bytes) // 2 // PAGE_BYTES) - 2
        return pages * _OVERFLOW_BYTES


def row_cost(body_bytes: int) -> int:
    """The disk space of a row in the database, rounded up."""
    record = body_bytes + _RECORD_BYTES
    if record > _LOCAL_BYTES:
        return (record // _OVERFLOW_BYTES + 1) * PAGE_BYTES
    return PAGE_BYTES if record > PAGE_BYTES // 2 else record + record // 4


ROW_COST_SQL: Final = (
    f"CASE WHEN length(body) + {_RECORD_BYTES} > {_LOCAL_BYTES}"
    f" THEN ((length(body) + {_RECORD_BYTES}) / {_OVERFLOW_BYTES} + 1) * {PAGE_BYTES}"
    f" WHEN length(body) + {_RECORD_BYTES} > {PAGE_BYTES // 2} THEN {PAGE_BYTES}"
    f" ELSE length(body) + {_RECORD_BYTES} + (length(body) + {_RECORD_BYTES}) / 4 END"
)
"""`row_cost` as an expression over `rows`."""


def wal_cost(appended_bytes: int) -> int:
    """The WAL space of a transaction that appends rows of this cost."""
    pages = appended_bytes // PAGE_BYTES + 1
    return (pages + pages // 256 + _FIXED_PAGES) * FRAME_BYTES


SCHEMA_VERSION: Final = 1
_APPLICATION_ID: Final = 0x5456_4E53

SEQUENCE_BITS: Final = 48
MAX_LOGS: Final = 1 << 14

SCHEMA: Final = (
    "CREATE TABLE store(name TEXT PRIMARY KEY, value TEXT, crc INTEGER) WITHOUT ROWID",
    "CREATE TABLE logs(id INTEGER PRIMARY KEY, name TEXT, next INTEGER, acknowledged INTEGER,"
    " dropped INTEGER, expired INTEGER, corrupt INTEGER, discarded INTEGER, crc INTEGER)",
    "CREATE TABLE rows(position INTEGER PRIMARY KEY, count INTEGER, newest_ns INTEGER,"
    " boot INTEGER, uptime_ns INTEGER, crc INTEGER, body BLOB)",
    "CREATE TABLE holes(position INTEGER PRIMARY KEY, last INTEGER, reason TEXT, at_ns INTEGER,"
    " reported INTEGER, crc INTEGER)",
    "CREATE TABLE checkpoints(segment TEXT, node TEXT, state BLOB, crc INTEGER,"
    " PRIMARY KEY (segment, node))",
    "CREATE TABLE quarantine(position INTEGER PRIMARY KEY, reason TEXT, body BLOB)",
    "CREATE TABLE clock(at_ns INTEGER, boot INTEGER, step_ns INTEGER)",
)


def connect(path: Path, mark: Path | None = None) -> Database:
    """Opens or creates a database. `mark` is the file that commits write their marks to.

    One connection holds the file exclusively: SQLite then keeps the WAL's index in memory, and
    there is no shared memory that a full disk could take away.
    """
    connection = _native.Database(path.absolute(), mark=mark)
    try:
        for statement in (
            f"PRAGMA page_size = {PAGE_BYTES}",
            "PRAGMA auto_vacuum = INCREMENTAL",
            "PRAGMA locking_mode = EXCLUSIVE",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            # Overwriting deleted rows with zeros would write every byte twice.
            "PRAGMA secure_delete = OFF",
            "PRAGMA cell_size_check = ON",
            "PRAGMA temp_store = MEMORY",
            "PRAGMA mmap_size = 0",
        ):
            connection.execute(statement)
        _create(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: Database, path: Path) -> None:
    version = check_version(connection, path)
    if version == SCHEMA_VERSION:
        check_schema(connection)
        return
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master")
    if version or tables:
        raise not_a_store(f"it has the schema version {version}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def check_version(connection: Database, path: Path) -> int:
    """The version of the schema; raises if a newer version of torvyn has written the file."""
    [(version,)] = connection.execute("PRAGMA user_version")
    if version > SCHEMA_VERSION and _is_another_schema(connection):
        raise newer_version(path, version)
    return int(version)


def check_schema(connection: Database) -> None:
    """SQLite believes whatever schema it finds."""
    if _statements(connection) != sorted(SCHEMA):
        raise not_a_store("its schema is different")


def _is_another_schema(connection: Database) -> bool:
    """Whether a store has the schema of another version. A flipped bit in the version leaves the
    schema as it is, and in the schema leaves the version."""
    [(application,)] = connection.execute("PRAGMA application_id")
    return bool(application == _APPLICATION_ID and _statements(connection) != sorted(SCHEMA))


def _statements(connection: Database) -> list[str]:
    query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
    return sorted(sql for (sql,) in connection.execute(query))


def not_a_store(why: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(f"not a database of this version of torvyn: {why}")
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def checkpoint_wal(connection: Database, *, truncate: bool) -> None:
    """Copies the WAL to the database and syncs it; raises if that fails."""
    mode = "TRUNCATE" if truncate else "RESTART"
    [(busy, _, _)] = connection.execute(f"PRAGMA wal_checkpoint({mode})")
    if busy:
        error = sqlite3.OperationalError("the WAL is locked by another connection")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error


def wal_path(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def file_bytes(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def crc(*fields: object, body: bytes = b"") -> int:
    """The checksum of a record."""
    text = "\0".join(map(str, fields))
    return zlib.crc32(body, zlib.crc32(text.encode("utf-8", "surrogateescape")))


_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


STORE_ERRORS: Final = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What a disk or a damaged file can lead to. SQLite's messages quote damaged texts."""
StoreError = sqlite3.Error | OSError | UnicodeDecodeError


def reason_of(error: StoreError) -> Reason:
    """What an error means. Raises errors that are mistakes of this package."""
    if isinstance(error, UnicodeDecodeError):
        return "corrupt"
    if isinstance(error, OSError):
        return "full" if error.errno in _FULL else "io"
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and "decode" not in str(error):
        raise error
    code = (code or sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "full"
    if code in _NOT_OF_THE_DISK:
        raise error
    return "io" if code in _IO else "corrupt"


_IO: Final = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOLFS,
)
# The statements of this package are right: if SQLite finds an error in one, the schema is damaged.
_NOT_OF_THE_DISK: Final = (
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_RANGE,
)


def unavailable(path: Path, error: StoreError) -> StoreUnavailable:
    reason = reason_of(error)
    what = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return StoreUnavailable(reason, f"cannot write to `{path}`: {what}")


def in_use(path: Path, pid: str) -> FlowError:
    return FlowError(
        "durable.in-use",
        f"another process{f' (pid {pid})' if pid else ''} runs the flow that stores its data in "
        f"`{path}`",
        hint="stop that process, or give this flow a `state_dir` of its own",
    )


def newer_version(path: Path, version: int) -> FlowError:
    return FlowError(
        "durable.newer-version",
        f"a newer version of torvyn has written `{path}`: its schema version is {version}",
        hint="run that version again, or move the file away: the elements in it are not delivered "
        "then",
    )


def row_too_large(log: str, size_bytes: int, limit_bytes: int) -> InvalidInput:
    return InvalidInput(
        f"a batch of {size_bytes} bytes does not fit into the log `{log}`, which takes batches of "
        f"at most {limit_bytes} bytes",
        hint="raise the edge's `max_bytes`",
        code="durable.row-too-large",
    )
