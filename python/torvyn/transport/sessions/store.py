"""The store: sessions on disk, in SQLite, so that they outlive the process.

One thread writes. What came while it wrote is the next transaction: many sessions share a commit,
and a frame is shown to its reader only when it lies in the file. A killed process loses nothing
that a client has seen; that a power cut loses the last moments is the price of not waiting for the
disk (`synchronous = NORMAL`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from torvyn.errors import MissingError, Unavailable

logger = logging.getLogger("torvyn.transport")

VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, caller TEXT NOT NULL, flow TEXT NOT NULL,
    epoch TEXT NOT NULL, asked TEXT NOT NULL, first INTEGER NOT NULL DEFAULT 1,
    gone TEXT NOT NULL DEFAULT '{}', is_over INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS frames (
    session TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
"""
Work = Callable[[sqlite3.Connection], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A session as it lies in the file."""

    id: str
    tenant: str
    caller: str
    flow: str
    epoch: str
    asked: str
    first: int = 1
    """The number of its oldest frame; the start has number 0 and is always there."""
    gone: str = "{}"
    """What the frames before that had said, as `Progress` writes it."""
    is_over: bool = False
    frames: tuple[bytes, ...] = ()


class Store:
    """Opened with its first use. Its methods are coroutines of one loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._works: SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def begin(self, stored: Stored) -> None:
        row = (stored.id, stored.tenant, stored.caller, stored.flow, stored.epoch, stored.asked)
        names = "id, tenant, caller, flow, epoch, asked"
        insert = f"INSERT INTO sessions ({names}) VALUES (?, ?, ?, ?, ?, ?)"
        await self._do(lambda db: db.execute(insert, row))

    async def append(self, id: str, seq: int, frames: list[bytes], is_over: bool) -> None:
        """Frames in a row, the first of them numbered `seq`."""
        data = b"\n".join(frames)
        row = (id, seq, data, zlib.crc32(data))

        def work(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO frames (session, seq, data, crc) VALUES (?, ?, ?, ?)", row)
            if is_over:
                db.execute("UPDATE sessions SET is_over = 1 WHERE id = ?", (id,))

        await self._do(work)

    async def forget_before(self, id: str, seq: int, gone: str) -> None:
        """Frames before that one are no longer needed, but for the start."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE sessions SET first = ?, gone = ? WHERE id = ?", (seq, gone, id))
            last = "SELECT max(seq) FROM frames WHERE session = ? AND seq <= ?"
            kept = db.execute(last, (id, seq)).fetchone()[0]
            drop = "DELETE FROM frames WHERE session = ? AND seq > 0 AND seq < ?"
            db.execute(drop, (id, kept))

        await self._do(work)

    async def load(self, id: str) -> Stored | None:
        found: Stored | None = await self._do(lambda db: _load(db, id))
        return found

    async def drop(self, *ids: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            for id in ids:
                db.execute("DELETE FROM frames WHERE session = ?", (id,))
                db.execute("DELETE FROM sessions WHERE id = ?", (id,))

        await self._do(work)

    async def ids(self) -> list[str]:
        rows = await self._do(lambda db: db.execute("SELECT id FROM sessions").fetchall())
        return [row[0] for row in rows]

    def close(self) -> None:
        """What was asked for before is still done. May block shortly."""
        if self._thread is not None:
            self._works.put(None)
            self._thread.join()
            self._thread = None

    def open(self) -> None:
        """Now, and not with the first use: raises when it cannot be opened."""
        if self._thread is None:
            db = connect(self.path)
            self._thread = threading.Thread(
                target=self._write, args=(db,), name="torvyn-sessions", daemon=True
            )
            self._thread.start()

    async def _do(self, work: Work) -> Any:
        self.open()
        self._loop = loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._works.put((work, done))
        return await done

    def _write(self, db: sqlite3.Connection) -> None:
        works, is_open = self._works, True
        while is_open:
            group = [works.get()]
            while not works.empty():
                group.append(works.get())
            is_open = None not in group
            self._commit(db, [one for one in group if one is not None])
        db.close()

    def _commit(
        self, db: sqlite3.Connection, group: list[tuple[Work, asyncio.Future[Any]]]
    ) -> None:
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                answers = [(done, work(db)) for work, done in group]
        except Exception as error:
            logger.error("the session store %s failed: %s", self.path.name, error)
            answers = [(done, store_failed(str(error))) for _, done in group]
        if answers and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                self._loop.call_soon_threadsafe(_answer, answers)


def _answer(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for done, answer in answers:
        if done.done():
            continue
        if isinstance(answer, Exception):
            done.set_exception(answer)
        else:
            done.set_result(answer)


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
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
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


def _load(db: sqlite3.Connection, id: str) -> Stored | None:
    names = "id, tenant, caller, flow, epoch, asked, first, gone, is_over"
    row = db.execute(f"SELECT {names} FROM sessions WHERE id = ?", (id,)).fetchone()
    if row is None:
        return None
    first, is_over = row[6], bool(row[8])
    frames: list[bytes] = []
    select = "SELECT seq, data, crc FROM frames WHERE session = ? ORDER BY seq"
    for seq, data, crc in db.execute(select, (id,)).fetchall():
        # Rows from before the oldest frame may hold it; after that there is no gap.
        wanted = first + len(frames) - 1 if frames else 0
        if not isinstance(data, bytes) or zlib.crc32(data) != crc or seq > wanted:
            logger.error("session %s: its frames from %d on are damaged", id[:8], wanted)
            db.execute("DELETE FROM frames WHERE session = ? AND seq >= ?", (id, seq))
            db.execute("UPDATE sessions SET is_over = 0 WHERE id = ?", (id,))
            is_over = False
            break
        frames += data.split(b"\n")[wanted - seq :]
    if not frames:
        return None
    fields = dict(zip(names.split(", "), row, strict=True))
    return Stored(**{**fields, "is_over": is_over, "frames": tuple(frames)})


def store_failed(why: str) -> Unavailable:
    return Unavailable(
        f"the answer cannot be kept any longer, so it ends here: {why}",
        code="session.store-failed",
        hint="look at the disk of the server; without `stateful` an answer needs none",
    )


def _cannot_open(path: Path, why: str) -> MissingError:
    return MissingError(
        "session.cannot-open",
        f"cannot open the session store `{path}`: {why}",
        hint="`session_store` of `[serve]` names the file",
    )
