"""The schema, and a connection with its settings.

The schema never depends on the logs, so page 1 of every store is the same and can be replaced when
it is damaged. A row's key is the number of its log and its first sequence number. Every record
carries a CRC over all of its fields, because SQLite has no checksums.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from torvyn import _native
from torvyn.durable.disk.budget import PAGE_BYTES
from torvyn.durable.failures import newer_version

if TYPE_CHECKING:
    from torvyn._native import Database

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
