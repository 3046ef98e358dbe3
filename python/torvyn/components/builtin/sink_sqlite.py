"""`sqlite`: inserts JSON objects as rows of a SQLite table.

The elements that are waiting are one transaction: all of them are on the disk when `push_batch`
returns, or none. With a `key`, or with `once`, which notes the last number in the same transaction,
an element that is delivered again changes nothing. A locked database or a full disk is waited for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.files.sqlite_files import (
    INVALID_ROW,
    DatabaseAway,
    column_type,
    connect,
    quoted,
    to_sql,
    translated,
)
from torvyn.components.identity import ONCE, ElementIdentity, identity_of
from torvyn.components.json_fields import (
    EXTRA,
    MISSING,
    get_field,
    parse_object,
    reject_extra,
)
from torvyn.components.retry import ON_DISCONNECT, RetryingSink
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput

SPEC = Spec(
    name="sqlite",
    role="sink",
    summary="Inserts JSON objects as rows of a SQLite table, in transactions.",
    options=(
        Option("path", "text", None, "The database; created if it is missing.", required=True),
        Option("table", "text", "elements", "The table; created if it is missing."),
        Option(
            "columns",
            "words",
            (),
            "Dotted paths to the fields to store; default: the columns of the table, or the fields "
            "of the first object.",
        ),
        Option(
            "key",
            "words",
            (),
            "The columns that identify an element; one that is stored already is not stored again.",
        ),
        Option(
            "on_conflict",
            "choice",
            "ignore",
            "For a key that is stored already: `ignore` the new row, or `update` the old one.",
            choices=("ignore", "update"),
        ),
        ONCE,
        EXTRA,
        Option("busy_timeout", "duration", 5.0, "How long one try waits for a locked database."),
        ON_DISCONNECT,
    ),
    main="path",
    example="""\
[flow.main.nodes.history]
component = "sqlite"
config = { path = "readings.db", table = "readings", key = ["device", "time"] }
""",
)

Record = tuple[dict[str, Any], ElementIdentity | None]


class SQLite(RetryingSink):
    spec: ClassVar[Spec] = SPEC
    unit = "rows"

    _database: sqlite3.Connection | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._path: str = options["path"]
        self._table: str = options["table"]
        self._columns: tuple[str, ...] = options["columns"]
        self._key: tuple[str, ...] = options["key"]
        self._updates = options["on_conflict"] == "update"
        self._wait_s: float = options["busy_timeout"]
        self._is_once: bool = options["once"]
        self._ignores_extra = options["extra"] == "ignore"
        self._statement = ""
        connection = self.use_connection(self._path, options["on_disconnect"])
        try:
            with translated(self._path):
                self._open()
        except DatabaseAway as error:
            connection.lost(str(error))

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        if not options["path"] or not options["table"]:
            raise wrong_config(SPEC, "`path` and `table` must not be empty")
        columns = options["columns"]
        missing = [name for name in options["key"] if columns and name not in columns]
        if missing:
            raise wrong_config(SPEC, f"the key {missing[0]!r} is not among `columns`")

    def push(self, element: Element) -> None:
        raise_refusal(self.push_batch((element,)))

    def push_batch(self, elements: Sequence[Element]) -> Results | None:
        results = BatchResults(elements, self._record)
        return results.send(
            lambda records: self.deliver(lambda: self._insert(records), DatabaseAway)
        )

    def _record(self, element: Element) -> Record:
        return parse_object(element), identity_of(element) if self._is_once else None

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _insert(self, records: list[Record]) -> None:
        """One transaction; when it raises, nothing was stored."""
        objects = [record for record, _ in records]
        marks = [mark for _, mark in records if mark is not None]
        with translated(self._path):
            database = self._open()
            if not self._statement:
                self._prepare(database, objects[0])
            rows = [self._row(record) for record in objects]
            try:
                database.execute("BEGIN IMMEDIATE")
                if marks:
                    rows = self._without_stored(database, rows, marks)
                database.executemany(self._statement, rows)
                database.execute("COMMIT")
            except INVALID_ROW:
                database.rollback()
                raise
            except sqlite3.DatabaseError:
                # After a failed write the state of the connection is not known.
                self.close()
                raise

    def _without_stored(
        self, database: sqlite3.Connection, rows: list[list[Any]], marks: list[ElementIdentity]
    ) -> list[list[Any]]:
        """The rows that are not stored yet; notes in the same transaction that they are."""
        database.execute(
            "CREATE TABLE IF NOT EXISTS torvyn_stored "
            "(target TEXT, epoch TEXT, sequence INTEGER, PRIMARY KEY (target, epoch))"
        )
        found = database.execute(
            "SELECT epoch, sequence FROM torvyn_stored WHERE target = ?", (self._table,)
        )
        last: dict[str, int] = dict(found)
        new = []
        for row, mark in zip(rows, marks, strict=True):
            if mark.sequence > last.get(mark.origin, -1):
                new.append(row)
                last[mark.origin] = mark.sequence
        database.executemany(
            "INSERT OR REPLACE INTO torvyn_stored VALUES (?, ?, ?)",
            [(self._table, origin, sequence) for origin, sequence in last.items()],
        )
        return new

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            database = connect(self._path, read_only=False, wait_s=self._wait_s)
            try:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
            except sqlite3.DatabaseError:
                database.close()
                raise
            self._database = database
        return self._database

    def _prepare(self, database: sqlite3.Connection, first: dict[str, Any]) -> None:
        """Creates what is missing, and the text of the statement."""
        table = quoted(self._table)
        existing = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        columns = self._columns or tuple(existing or first)
        unknown = [name for name in (*columns, *self._key) if name not in (existing or columns)]
        if unknown:
            # Not the element's fault: every one would be refused.
            raise DatabaseAway(f"the table {self._table} has no column {unknown[0]!r}")
        if not existing:
            types = [f"{quoted(name)} {column_type(get_field(first, name))}" for name in columns]
            database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(types)})")
        if self._key:
            index, keys = quoted(f"{self._table}_key"), ", ".join(map(quoted, self._key))
            database.execute(f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {table} ({keys})")
        self._columns = columns
        self._statement = self._insert_statement(table, columns)

    def _insert_statement(self, table: str, columns: tuple[str, ...]) -> str:
        names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        if not self._key:
            return statement
        values = [name for name in columns if name not in self._key]
        action = "DO NOTHING"
        if self._updates and values:
            changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in values)
            action = f"DO UPDATE SET {changes}"
        return f"{statement} ON CONFLICT ({', '.join(map(quoted, self._key))}) {action}"

    def _row(self, record: dict[str, Any]) -> list[Any]:
        for name in self._key:
            if get_field(record, name) in (MISSING, None):
                raise InvalidInput(f"it has no {name!r}, which is part of the key")
        if not self._ignores_extra:
            reject_extra(record, self._columns, self._table)
        values = (get_field(record, name) for name in self._columns)
        return [None if value is MISSING else to_sql(value) for value in values]
