"""SQLite databases for components: quoted names, values, and errors by whose fault they are."""

from __future__ import annotations

import base64
import contextlib
import os
import sqlite3
from collections.abc import Iterator
from typing import Any, Final
from urllib.request import pathname2url

from torvyn.components.json_fields import write_json
from torvyn.errors import InvalidInput, Unavailable

INVALID_ROW: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    OverflowError,
)
"""Errors of a row, not of the database."""

_TRANSIENT: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


class DatabaseAway(Exception):
    """The database cannot be used now; a later try may succeed."""


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
    """Turns the errors of a database into `DatabaseAway`, `InvalidInput` or `Unavailable`."""
    try:
        yield
    except INVALID_ROW as error:
        raise InvalidInput(f"cannot store it in {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _TRANSIENT:
            raise DatabaseAway(str(error)) from error
        raise Unavailable(f"cannot use the database {path}: {error}") from error


def quoted(name: str) -> str:
    """An identifier for SQL text."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def connect(path: str, *, read_only: bool, wait_s: float) -> sqlite3.Connection:
    """An open database. `wait_s` is how long a call waits for another process's lock."""
    mode = "ro" if read_only else "rwc"
    place = pathname2url(os.path.abspath(os.path.expanduser(path)))
    return sqlite3.connect(
        f"file:{place}?mode={mode}",
        uri=True,
        timeout=wait_s,
        isolation_level=None,
        check_same_thread=False,
    )


def to_sql(value: Any) -> Any:
    """A JSON value as a value of a column; lists and objects are stored as JSON text."""
    if isinstance(value, (dict, list)):
        return write_json(value)
    return int(value) if isinstance(value, bool) else value


def from_sql(value: Any) -> Any:
    """A value of a column as a JSON value; a blob becomes base64 text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def column_type(value: Any) -> str:
    """The type of a new column, from its first value."""
    if isinstance(value, (bool, int)):
        return "INTEGER"
    return "REAL" if isinstance(value, float) else "TEXT"
