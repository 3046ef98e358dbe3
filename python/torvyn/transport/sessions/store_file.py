"""The file of the session store: tables, rows, checksums. No thread and no loop.

Frames are appended and never looked for while a server runs, so their table has no index: the rows
of many sessions share pages, and a commit writes few of them. Which rows are whose is known here;
a file that was there before is read through once.
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

from torvyn.errors import MissingError

logger = logging.getLogger("torvyn.transport")

VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, caller TEXT NOT NULL, flow TEXT NOT NULL,
    epoch TEXT NOT NULL, asked TEXT NOT NULL, first INTEGER NOT NULL DEFAULT 1,
    gone TEXT NOT NULL DEFAULT '{}', is_over INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS frames (
    place INTEGER PRIMARY KEY, session TEXT NOT NULL, seq INTEGER NOT NULL,
    data BLOB NOT NULL, crc INTEGER NOT NULL
);
"""
_MOST_ROWS: Final = 2000
"""Of one statement; SQLite takes 32,766 values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as it lies in the file."""

    id: str
    tenant: str
    caller: str
    flow: str
    epoch: str
    request: str
    first: int = 1
    """The number of its oldest frame; the start has number 0 and is always there."""
    gone: str = "{}"
    """What the frames before that had said, as `Progress` writes it."""
    is_over: bool = False
    frames: tuple[bytes, ...] = ()


_FIELDS: Final = ("id", "tenant", "caller", "flow", "epoch", "request", "first", "gone", "is_over")
"""In the order of the columns that `load` selects."""


class StoreFile:
    """Used by one thread at a time, within transactions that others begin and end."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._places: dict[str, array[int]] = {}
        """Where a session's rows are, each with the number of its first frame."""
        self._next = 1
        # A transaction that failed may have left some.
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
        """Rows of session, number, frames and checksum. Many go into one statement: the interpreter
        is given away at every step of SQLite, and waiting for it costs more than the step."""
        for at in range(0, len(rows), _MOST_ROWS):
            part = rows[at : at + _MOST_ROWS]
            values: list[object] = []
            for id, seq, data, crc in part:
                self._places.setdefault(id, array("q")).extend((self._next, seq))
                values += (self._next, id, seq, data, crc)
                self._next += 1
            names = "place, session, seq, data, crc"
            spots = ", ".join(["(?, ?, ?, ?, ?)"] * len(part))
            self.db.execute(f"INSERT INTO frames ({names}) VALUES {spots}", values)

    def forget_before(self, id: str, seq: int, gone: str) -> None:
        statement = "UPDATE sessions SET first = ?, gone = ? WHERE id = ?"
        self.db.execute(statement, (seq, gone, id))
        places = self._places.get(id, array("q"))
        seqs = places[1::2]
        # The row that holds the oldest frame stays, and the start's, which is the first.
        kept = max((i for i, first in enumerate(seqs) if first <= seq), default=0)
        self._delete(places[2 : 2 * kept : 2])
        self._places[id] = places[:2] + places[max(2, 2 * kept) :]

    def drop(self, *ids: str) -> None:
        for id in ids:
            self._delete(self._places.pop(id, array("q"))[::2])
            self.db.execute("DELETE FROM sessions WHERE id = ?", (id,))

    def ids(self) -> list[str]:
        return [row[0] for row in self.db.execute("SELECT id FROM sessions")]

    def load(self, id: str) -> StoredSession | None:
        names = "id, tenant, caller, flow, epoch, asked, first, gone, is_over"
        row = self.db.execute(f"SELECT {names} FROM sessions WHERE id = ?", (id,)).fetchone()
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
            # Rows from before the oldest frame may hold it; after that there is no gap.
            wanted = first + len(frames) - 1 if frames else 0
            if not isinstance(data, bytes) or zlib.crc32(data) != crc or seq > wanted:
                logger.error("session %s: its frames from %d on are damaged", id[:8], wanted)
                self._delete(places[at::2])
                self._places[id] = places[:at]
                self.db.execute("UPDATE sessions SET is_over = 0 WHERE id = ?", (id,))
                return frames, True
            frames += data.split(b"\n")[wanted - seq :]
        return frames, False

    def _delete(self, places: Sequence[int]) -> None:
        for at in range(0, len(places), _MOST_ROWS):
            part = list(places[at : at + _MOST_ROWS])
            spots = ", ".join("?" * len(part))
            self.db.execute(f"DELETE FROM frames WHERE place IN ({spots})", part)


def connect(path: Path) -> sqlite3.Connection:
    """The file, with its tables; one that is damaged is set aside, and said to be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise _cannot_open(path, str(error)) from error
        aside = path.with_name(f"{path.name}.damaged")
        logger.error("the session store %s is damaged; it is kept as %s", path.name, aside.name)
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        path.replace(aside)
        return _connect(path)
    except OSError as error:
        raise _cannot_open(path, (error.strerror or str(error)).lower()) from error


def _connect(path: Path) -> sqlite3.Connection:
    # Prompts and answers lie in it: nobody else reads them.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            with contextlib.suppress(PermissionError):  # it is another user's, who decides
                os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    db = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
    try:
        # Two servers would each make an answer of their own for a session.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if db.execute("PRAGMA quick_check").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("quick_check")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise _cannot_open(path, "a later version of torvyn wrote it")
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
        hint="`session_store` of `[serve]` names the file",
    )
