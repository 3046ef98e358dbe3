"""The file of the session store: tables, rows, checksums. No thread and no loop.

Frames are appended and never searched while a server runs, so their table has no index: the rows
of many sessions share pages, and a commit writes few pages. This process keeps the positions of
each session's rows in memory; an existing file is read through once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from torvyn.errors import MissingError, os_reason

logger = logging.getLogger("torvyn.transport")

VERSION: Final = 2
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, caller TEXT NOT NULL, flow TEXT NOT NULL,
    epoch TEXT NOT NULL, asked TEXT NOT NULL, first INTEGER NOT NULL DEFAULT 1,
    gone TEXT NOT NULL DEFAULT '{}', is_over INTEGER NOT NULL DEFAULT 0,
    stopped TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS frames (
    place INTEGER PRIMARY KEY, session TEXT NOT NULL, seq INTEGER NOT NULL,
    data BLOB NOT NULL, crc INTEGER NOT NULL
);
"""
_MAX_ROWS: Final = 2000
"""Per statement; SQLite takes 32,766 values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as the file has it."""

    id: str
    tenant: str
    caller: str
    flow: str
    epoch: str
    request: str
    first: int = 1
    """The number of its oldest frame; the start frame, number 0, is always kept."""
    dropped: str = "{}"
    """The text of the dropped frames, as `Progress` stores it."""
    is_over: bool = False
    stopped: str = ""
    """`stop` or `cancel`, if a client has asked for it."""
    frames: tuple[bytes, ...] = ()


_COLUMNS = "id, tenant, caller, flow, epoch, asked, first, gone, is_over, stopped"
_FIELDS = (
    *("id", "tenant", "caller", "flow", "epoch", "request", "first", "dropped", "is_over"),
    "stopped",
)
"""In the order of the columns."""


class StoreFile:
    """Used by one thread at a time, inside the caller's transactions."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._places: dict[str, array[int]] = {}
        """The rows of each session, each with the number of its first frame."""
        self._next = 1
        # A failed transaction may have left some.
        db.execute("DELETE FROM frames WHERE session NOT IN (SELECT id FROM sessions)")
        for place, id, seq in db.execute("SELECT place, session, seq FROM frames ORDER BY place"):
            self._places.setdefault(id, array("q")).extend((place, seq))
            self._next = place + 1

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(connect(path))

    def begin(self, stored: StoredSession) -> None:
        row = (stored.id, stored.tenant, stored.caller, stored.flow, stored.epoch, stored.request)
        names = "id, tenant, caller, flow, epoch, asked"
        self.db.execute(f"INSERT INTO sessions ({names}) VALUES (?, ?, ?, ?, ?, ?)", row)

    def add(self, rows: Sequence[tuple[str, int, bytes, int]]) -> None:
        """Adds rows of session, number, frames and checksum. Many go into one statement: SQLite
        releases the interpreter at every step, and getting it back costs more than the step."""
        for at in range(0, len(rows), _MAX_ROWS):
            part = rows[at : at + _MAX_ROWS]
            values: list[object] = []
            for id, seq, data, crc in part:
                self._places.setdefault(id, array("q")).extend((self._next, seq))
                values += (self._next, id, seq, data, crc)
                self._next += 1
            names = "place, session, seq, data, crc"
            marks = ", ".join(["(?, ?, ?, ?, ?)"] * len(part))
            self.db.execute(f"INSERT INTO frames ({names}) VALUES {marks}", values)

    def forget_before(self, id: str, seq: int, dropped: str) -> None:
        statement = "UPDATE sessions SET first = ?, gone = ? WHERE id = ?"
        self.db.execute(statement, (seq, dropped, id))
        places = self._places.get(id, array("q"))
        seqs = places[1::2]
        # The row with the oldest frame stays, and so does the first one, with the start frame.
        kept = max((i for i, first in enumerate(seqs) if first <= seq), default=0)
        self._delete(places[2 : 2 * kept : 2])
        self._places[id] = places[:2] + places[max(2, 2 * kept) :]

    def stop(self, id: str, kind: str) -> None:
        self.db.execute("UPDATE sessions SET stopped = ? WHERE id = ?", (kind, id))

    def drop(self, *ids: str) -> None:
        for id in ids:
            self._delete(self._places.pop(id, array("q"))[::2])
            self.db.execute("DELETE FROM sessions WHERE id = ?", (id,))

    def ids(self) -> list[str]:
        return [row[0] for row in self.db.execute("SELECT id FROM sessions")]

    def load(self, id: str) -> StoredSession | None:
        row = self.db.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (id,)).fetchone()
        if row is None:
            return None
        fields = dict(zip(_FIELDS, row, strict=True))
        frames, is_damaged = self._frames(id, fields["first"])
        if not frames:
            return None
        is_over = bool(fields["is_over"]) and not is_damaged
        return StoredSession(**{**fields, "is_over": is_over, "frames": tuple(frames)})

    def _frames(self, id: str, first: int) -> tuple[list[bytes], bool]:
        frames: list[bytes] = []
        places = self._places.get(id, array("q"))
        for at in range(0, len(places), 2):
            place, seq = places[at], places[at + 1]
            select = "SELECT data, crc FROM frames WHERE place = ?"
            data, crc = self.db.execute(select, (place,)).fetchone() or (None, 0)
            # An earlier row may contain the oldest frame; after that there is no gap.
            expected = first + len(frames) - 1 if frames else 0
            if not isinstance(data, bytes) or zlib.crc32(data) != crc or seq > expected:
                logger.error("session %s is damaged from frame %d on", id[:8], expected)
                self._delete(places[at::2])
                self._places[id] = places[:at]
                self.db.execute("UPDATE sessions SET is_over = 0 WHERE id = ?", (id,))
                return frames, True
            frames += data.split(b"\n")[expected - seq :]
        return frames, False

    def _delete(self, places: Sequence[int]) -> None:
        for at in range(0, len(places), _MAX_ROWS):
            part = list(places[at : at + _MAX_ROWS])
            marks = ", ".join("?" * len(part))
            self.db.execute(f"DELETE FROM frames WHERE place IN ({marks})", part)


def connect(path: Path) -> sqlite3.Connection:
    """Opens the file and its tables. A damaged file is renamed, and logged."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise _cannot_open(path, str(error)) from error
        aside = path.with_name(f"{path.name}.damaged")
        logger.error("the session store %s is damaged; it was renamed to %s", path.name, aside.name)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.replace(aside)
        return _connect(path)
    except OSError as error:
        raise _cannot_open(path, os_reason(error)) from error


def _connect(path: Path) -> sqlite3.Connection:
    # It contains prompts and answers, so only the owner may read it.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            with contextlib.suppress(PermissionError):  # it belongs to another user
                os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    db = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
    try:
        # Two servers would each run their own answer for a session.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("PRAGMA quick_check").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("quick_check")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise _cannot_open(path, "it was written by a later version of torvyn")
        if version == 1:
            db.execute("ALTER TABLE sessions ADD COLUMN stopped TEXT NOT NULL DEFAULT ''")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _cannot_open(path: Path, why: str) -> MissingError:
    return MissingError(
        "session.cannot-open",
        f"cannot open the session store `{path}`: {why}",
        hint="set `session_store` of `[serve]` to another file",
    )
