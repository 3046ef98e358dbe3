"""The dead letters of a flow: elements that a node refused for good, until somebody decides.

A database of its own next to the store, which other processes may open while the flow runs. A
letter is durable when `add` returns. With the same key (a node, an epoch, a number and a payload)
it is stored once, so that a crash between storing an element and settling it repeats nothing.

    set_aside = waiting + returned + dropped

Letters that somebody has marked go back: they become new elements of the `disk` edge in front of
the node that refused them. Which numbers they will have in the log is noted before they are
committed there, so that after a crash each of them is in exactly one of the two files that counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from torvyn._durable.disk.database import (
    PAGE_BYTES,
    STORE_ERRORS,
    StoreError,
    crc,
    newer_version,
    reason_of,
    unavailable,
)
from torvyn._durable.disk.store import DurableStore
from torvyn.errors import FlowError, StoreUnavailable

if TYPE_CHECKING:
    from torvyn._durable.disk.backend import DiskEdge
    from torvyn._native import Database

T = TypeVar("T")
FILE: Final = "dead-letters.db"
MAX_BYTES: Final = 64 * 1024 * 1024
"""What the letters of a flow may occupy."""
LETTER_BYTES: Final = 512
"""What a letter occupies besides its element and its message, at most."""
_MAX_MESSAGE: Final = 2000
_VERSION: Final = 1
_BUSY_MS: Final = 2000
_SCHEMA: Final = (
    "CREATE TABLE letters(id INTEGER PRIMARY KEY AUTOINCREMENT, node TEXT, epoch TEXT,"
    " sequence INTEGER, occurrence INTEGER, digest BLOB, at_ns INTEGER, code TEXT, message TEXT,"
    " crc INTEGER, state TEXT, log TEXT, position INTEGER, cost INTEGER, body BLOB,"
    " UNIQUE (node, epoch, sequence, occurrence, digest))",
    "CREATE INDEX letters_state ON letters(state)",
    "CREATE TABLE counts(node TEXT PRIMARY KEY, set_aside INTEGER, returned INTEGER,"
    " discarded INTEGER, dropped INTEGER, damaged INTEGER) WITHOUT ROWID",
)
_FIELDS: Final = "id, node, epoch, sequence, occurrence, at_ns, code, message, state, crc, body"

Leaving = Literal["returned", "discarded", "dropped", "damaged"]
"""How a letter may leave the store."""


@dataclass(frozen=True, slots=True)
class NewLetter:
    """An element that is set aside. `body` is a batch that has it."""

    node: str
    epoch: str
    sequence: int | None
    """None: a source refused it before it had a number."""
    at_ns: int
    code: str
    message: str
    body: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: int
    node: str
    epoch: str
    sequence: int | None
    at_ns: int
    code: str
    message: str
    state: str
    """`waiting`, or `retry` and `returning` on its way back to its node."""
    body: bytes

    def content(self) -> tuple[str, bytes, bytes]:
        """Its content type, its attributes as JSON or nothing, and its payload."""
        from torvyn._native import EdgeLog

        [(_, content_type, attributes, payload)] = EdgeLog.decode(self.body)
        return content_type, attributes, payload


@dataclass(frozen=True, slots=True)
class NodeLetters:
    """The account of one node."""

    node: str
    waiting: int
    retrying: int
    """Those of the waiting ones that are on their way back."""
    bytes: int
    oldest_ns: int | None
    set_aside: int
    returned: int
    discarded: int
    dropped: int
    damaged: int


class DeadLetterStore:
    """All methods may be called from any thread, and raise `StoreUnavailable`."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path: Final = path
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._database: Database | None = None
        self._seen: dict[tuple[Any, ...], int] = {}
        """How often this run has set the same aside: equal elements are different ones."""

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def add(self, new: NewLetter) -> int:
        """Stores a letter; returns how many were dropped to make room for it, itself perhaps."""
        digest = hashlib.sha256(b"%d " % len(new.body) + _content(new.body)).digest()[:16]
        key = (new.node, new.epoch, -1 if new.sequence is None else new.sequence, digest)
        occurrence = self._seen.get(key, 0)
        message = new.message[:_MAX_MESSAGE]
        cost = LETTER_BYTES + len(new.body) + len(message.encode(errors="replace"))
        record = (*key[:3], occurrence, new.at_ns, new.code, message)
        checksum = crc(*record, body=new.body)

        def insert(database: Database) -> int:
            known = database.execute(
                "SELECT 1 FROM letters WHERE (node, epoch, sequence, digest, occurrence) ="
                " (?, ?, ?, ?, ?)",
                (*key, occurrence),
            )
            if known:
                return 0
            database.execute("INSERT OR IGNORE INTO counts VALUES (?, 0, 0, 0, 0, 0)", key[:1])
            database.execute("UPDATE counts SET set_aside = set_aside + 1 WHERE node = ?", key[:1])
            if cost > self._max_bytes:
                _count(database, new.node, "dropped", 1)
                return 1
            dropped = _make_room(database, self._max_bytes - cost)
            database.execute(
                "INSERT INTO letters(node, epoch, sequence, occurrence, digest, at_ns, code,"
                " message, crc, state, cost, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting',"
                " ?, ?)",
                (*key[:3], occurrence, digest, *record[4:], checksum, cost, new.body),
            )
            return dropped

        dropped = self._change(insert)
        if len(self._seen) >= _MOST_SEEN:
            # Equal elements follow each other closely.
            del self._seen[next(iter(self._seen))]
        self._seen.pop(key, None)
        self._seen[key] = occurrence + 1
        return dropped

    def nodes(self) -> list[NodeLetters]:
        """The account of each node that has ever set something aside."""

        def read(database: Database) -> list[NodeLetters]:
            rows = database.execute(
                "SELECT c.node, count(l.id), total(l.state <> 'waiting'), total(length(l.body)),"
                " min(l.at_ns), c.set_aside, c.returned, c.discarded, c.dropped, c.damaged"
                " FROM counts c LEFT JOIN letters l ON l.node = c.node GROUP BY c.node"
            )
            return [
                NodeLetters(node, count, int(retrying), int(size), *rest)
                for node, count, retrying, size, *rest in rows
            ]

        return self._read(read)

    def letters(self, ids: Iterable[int] | None = None, node: str | None = None) -> list[int]:
        """The numbers of the letters, oldest first: those of a node, or those that still exist."""

        def read(database: Database) -> list[int]:
            query = "SELECT id FROM letters WHERE ? IS NULL OR node = ? ORDER BY id"
            return [id for (id,) in database.execute(query, (node, node))]

        found = self._read(read)
        if ids is None:
            return found
        wanted = set(ids)
        return [id for id in found if id in wanted]

    def read(self, ids: Sequence[int]) -> Iterator[DeadLetter]:
        """The letters, one after the other. Damaged ones are left out, and counted."""
        for id in ids:
            rows = self._read(partial(_row, id))
            if not rows:
                continue
            if (letter := _intact(rows[0])) is not None:
                yield letter
            else:
                self.remove([id], "damaged")

    def retry(self, ids: Sequence[int]) -> int:
        """The flow is to put these back to their nodes; returns how many there are."""
        return self._each(
            ids, "UPDATE letters SET state = 'retry' WHERE id = ? AND state = 'waiting'"
        )

    def keep(self, ids: Sequence[int]) -> None:
        """They are not put back."""
        self._each(ids, "UPDATE letters SET state = 'waiting' WHERE id = ?")

    def remove(self, ids: Sequence[int], how: Leaving) -> int:
        """Takes letters out; returns how many there were. Those that are in both files already
        cannot be discarded."""
        which = "AND state <> 'returning'" if how == "discarded" else ""
        statement = f"DELETE FROM letters WHERE id = ? {which} RETURNING node"

        def leave(database: Database) -> int:
            count = 0
            for id in ids:
                rows = database.execute(statement, (id,))
                for (node,) in rows:
                    _count(database, node, how, 1)
                    count += 1
            return count

        if not ids:
            return 0
        removed = self._change(leave)
        with contextlib.suppress(StoreUnavailable):
            # Space is given back when there is time for it.
            self._read(lambda database: database.execute("PRAGMA incremental_vacuum(1024)"))
        return removed

    # On their way back

    def wanted(self, node: str, max_bytes: int) -> list[DeadLetter]:
        """The next letters that are to be put back to a node."""

        def read(database: Database) -> list[int]:
            rows = database.execute(
                "SELECT id, cost FROM letters WHERE state = 'retry' AND node = ? ORDER BY id",
                (node,),
            )
            found: list[int] = []
            left = max_bytes
            for id, cost in rows:
                if found and left < cost:
                    break
                found.append(id)
                left -= cost
            return found

        return list(self.read(self._read(read)))

    def wanting(self) -> list[str]:
        """The nodes to which letters are to be put back."""
        query = "SELECT DISTINCT node FROM letters WHERE state = 'retry'"
        return self._read(lambda database: [node for (node,) in database.execute(query)])

    def put_back(self, ids: Sequence[int], log: str, first: int) -> None:
        """The letters will be the elements from `first` on of a log, which are not durable yet."""

        def note(database: Database) -> None:
            for position, id in enumerate(ids, first):
                database.execute(
                    "UPDATE letters SET state = 'returning', log = ?, position = ? WHERE id = ?",
                    (log, position, id),
                )

        self._change(note)

    def settle_returned(self, next_of: Callable[[str], int | None]) -> None:
        """At a start: those that a log has are gone from here, the others are put back again."""
        if not self.exists:
            return
        query = "SELECT id, log, position FROM letters WHERE state = 'returning'"
        rows = self._read(lambda database: database.execute(query))
        is_stored = {id: position < (next_of(log) or 0) for id, log, position in rows}
        self.remove([id for id, stored in is_stored.items() if stored], "returned")
        self._each(
            [id for id, stored in is_stored.items() if not stored],
            "UPDATE letters SET state = 'retry' WHERE id = ?",
        )

    def close(self) -> None:
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    # The database

    def check(self) -> None:
        """Raises if there is a file that this version cannot use."""
        if self.exists:
            self._read(lambda database: database.execute("SELECT count(*) FROM letters"))

    def set_damaged_aside(self) -> Path:
        """Renames a file that cannot be read; a new one is made for the next letter."""
        with self._lock:
            self.close()
            names = (self.path.with_name(f"{self.path.name}.damaged-{n}") for n in range(1, 1000))
            target = next(name for name in names if not name.exists())
            self.path.rename(target)
            with contextlib.suppress(OSError):
                os.remove(_journal(self.path))
            return target

    def _each(self, ids: Sequence[int], statement: str) -> int:
        def change(database: Database) -> int:
            count = 0
            for id in ids:
                database.execute(statement, (id,))
                [(changed,)] = database.execute("SELECT changes()")
                count += changed
            return count

        return self._change(change) if ids else 0

    def _read(self, work: Callable[[Database], list[T]]) -> list[T]:
        """A store without a file is empty, and stays without one."""
        with self._lock:
            if self._database is None and not self.exists:
                return []
            try:
                return work(self._open())
            except STORE_ERRORS as error:
                raise self._failed(error) from error

    def _change(self, work: Callable[[Database], T]) -> T:
        """All of it is durable afterwards, or nothing is changed."""
        with self._lock:
            try:
                database = self._open()
                database.execute("BEGIN IMMEDIATE")
                result = work(database)
                database.execute("COMMIT")
                return result
            except STORE_ERRORS as error:
                raise self._failed(error) from error

    def _failed(self, error: StoreError) -> StoreUnavailable:
        # What was not committed is rolled back, by whoever opens the file next.
        self.close()
        if reason_of(error) != "corrupt":
            return unavailable(self.path, error)
        return StoreUnavailable(
            "corrupt",
            f"the dead letters in `{self.path}` cannot be read: {error}",
            hint="move the file away; the flow does it when it sets something aside",
        )

    def _open(self) -> Database:
        if self._database is None:
            from torvyn._native import Database as NewDatabase

            self.path.parent.mkdir(parents=True, exist_ok=True)
            database = NewDatabase(self.path.absolute())
            try:
                self._prepare(database)
            except BaseException:
                database.close()
                raise
            os.chmod(self.path, 0o600)
            self._database = database
        return self._database

    def _prepare(self, database: Database) -> None:
        database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        [(version,)] = database.execute("PRAGMA user_version")
        if version > _VERSION:
            raise newer_version(self.path, version)
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        # With a WAL, readers would need shared memory, which a full disk may take away.
        database.execute("PRAGMA journal_mode = TRUNCATE")
        database.execute("PRAGMA synchronous = EXTRA")
        if not version:
            database.execute("BEGIN IMMEDIATE")
            [(version,)] = database.execute("PRAGMA user_version")
            for statement in () if version else _SCHEMA:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")


_MOST_SEEN: Final = 4096


def _content(body: bytes) -> bytes:
    """What an element has that does not change when it is delivered again: its time may."""
    from torvyn._native import EdgeLog

    return b"\0".join(
        content_type.encode() + b"\0" + attributes + b"\0" + payload
        for _, content_type, attributes, payload in EdgeLog.decode(body)
    )


def _row(id: int, database: Database) -> list[tuple[Any, ...]]:
    return database.execute(f"SELECT {_FIELDS} FROM letters WHERE id = ?", (id,))


def _intact(row: tuple[Any, ...]) -> DeadLetter | None:
    id, node, epoch, sequence, occurrence, at_ns, code, message, state, checksum, body = row
    record = (node, epoch, sequence, occurrence, at_ns, code, message)
    if not isinstance(body, bytes) or crc(*record, body=body) != checksum:
        return None
    number = None if sequence < 0 else sequence
    return DeadLetter(id, node, epoch, number, at_ns, code, message, state, body)


def _count(database: Database, node: str, how: Leaving, count: int) -> None:
    database.execute(f"UPDATE counts SET {how} = {how} + ? WHERE node = ?", (count, node))


def _make_room(database: Database, most_bytes: int) -> int:
    """Drops the oldest letters until the others occupy at most so much."""
    [(used,)] = database.execute("SELECT total(cost) FROM letters")
    dropped = 0
    while used > most_bytes:
        [(id, node, cost)] = database.execute(
            "SELECT id, node, cost FROM letters ORDER BY id LIMIT 1"
        )
        database.execute("DELETE FROM letters WHERE id = ?", (id,))
        _count(database, node, "dropped", 1)
        used -= cost
        dropped += 1
    return dropped


def _journal(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


logger = logging.getLogger("torvyn.durable")

LOOK_S: Final = 1.0
"""How often the store of the letters is looked at."""
_PAGE_BYTES: Final = 256 * 1024
"""How much goes back at a time."""


class _OnTheWay(NamedTuple):
    log: str
    ids: list[int]
    end: int
    """They are durable when the log goes on here."""


class ReturnedLetters:
    """All methods are called on the carrier's thread, but for `open`."""

    def __init__(self, letters: DeadLetterStore, store: DurableStore) -> None:
        self._letters = letters
        self._store = store
        self._on_the_way: list[_OnTheWay] = []
        self._look_at_s = -math.inf
        self._may_be_more = True

    @property
    def is_under_way(self) -> bool:
        """Whether the end of the flow must wait for them."""
        return self._may_be_more or bool(self._on_the_way)

    def open(self) -> None:
        """Settles what an earlier run has begun, before anything is appended to a log."""
        logs = self._store.logs()
        next_of = {name: self._store.next_sequence(name) for name in logs}
        try:
            self._letters.settle_returned(next_of.get)
        except (StoreUnavailable, FlowError) as error:
            logger.warning("no dead letters are put back for now: %s", error)
            self._look_at_s = math.inf
            self._may_be_more = False

    def advance(self, edges: Sequence[DiskEdge]) -> None:
        """Puts back what was marked. What fails is tried again."""
        if not self._on_the_way and time.monotonic() < self._look_at_s:
            return
        try:
            self._remove_stored()
            if time.monotonic() >= self._look_at_s:
                self._look_at_s = time.monotonic() + LOOK_S
                self._may_be_more = False
                self._put_back(edges)
        except (StoreUnavailable, FlowError) as error:
            self._look_at_s = time.monotonic() + 10 * LOOK_S
            self._may_be_more = False
            logger.warning("dead letters are not put back for now: %s", error)

    def finish(self) -> None:
        """The last commit of the run is done."""
        try:
            self._remove_stored()
        except (StoreUnavailable, FlowError) as error:
            logger.warning("the next start looks where the dead letters are: %s", error)

    def _remove_stored(self) -> None:
        for group in [*self._on_the_way]:
            if self._store.next_sequence(group.log) >= group.end:
                self._letters.remove(group.ids, "returned")
                self._on_the_way.remove(group)

    def _put_back(self, edges: Sequence[DiskEdge]) -> None:
        if not self._letters.exists:
            return
        busy = {group.log for group in self._on_the_way}
        for node in self._letters.wanting():
            edge = next((each for each in edges if each.wired.edge.target == node), None)
            if edge is not None and edge.name not in busy and edge.takes_letters:
                self._put_back_to(edge, self._letters.wanted(node, _PAGE_BYTES))

    def _put_back_to(self, edge: DiskEdge, letters: list[DeadLetter]) -> None:
        fitting = [each for each in letters if len(each.body) <= edge.max_letter_bytes]
        self._keep([each for each in letters if each not in fitting], edge)
        if not fitting:
            return
        ids = [each.id for each in fitting]
        first = edge.put_back([each.body for each in fitting])
        # Whatever happens now: these must be gone from one of the files.
        self._on_the_way.append(_OnTheWay(edge.name, ids, first + len(ids)))
        self._letters.put_back(ids, edge.name, first)
        logger.info(
            "%d dead letters go back to node `%s`",
            len(ids),
            edge.wired.edge.target,
            extra={"event": "letters.returned", "count": len(ids)},
        )
        self._look_at_s, self._may_be_more = time.monotonic(), True

    def _keep(self, letters: list[DeadLetter], edge: DiskEdge) -> None:
        if letters:
            self._letters.keep([each.id for each in letters])
            logger.warning(
                "%d dead letters of node `%s` are too large for the `max_bytes` of its edge",
                len(letters),
                edge.wired.edge.target,
            )
