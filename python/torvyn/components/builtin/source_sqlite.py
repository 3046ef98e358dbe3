"""`sqlite`: the rows of a SQLite table in the order of a column, and new ones as they appear.

It only reads. Rows with equal values in the column are told apart by their row id. Its position is
the last row that it returned.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from typing import Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.connection import Connection
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.files.sqlite_files import DatabaseAway, connect, from_sql, quoted, translated
from torvyn.components.json_fields import JSON_TYPE, write_json
from torvyn.components.retry import ON_DISCONNECT, PollRetry
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput, Unavailable

SPEC = Spec(
    name="sqlite",
    role="source",
    summary="Reads the rows of a SQLite table as JSON objects, and new ones as they appear.",
    options=(
        Option("path", "text", None, "The database.", required=True),
        Option("table", "text", "elements", "The table."),
        Option(
            "column",
            "text",
            "rowid",
            "A column whose values increase from row to row, such as a number or a time.",
        ),
        Option("columns", "words", (), "The columns to return; default: all."),
        Option(
            "start",
            "choice",
            "beginning",
            "Where to start when the flow starts for the first time.",
            choices=("beginning", "end"),
        ),
        Option("poll", "duration", 1.0, "The time between two looks for new rows."),
        Option("follow", "boolean", True, "Whether to wait for new rows or to end."),
        ON_DISCONNECT,
    ),
    main="path",
    example="""\
[flow.main.nodes.readings]
component = "sqlite"
config = { path = "readings.db", table = "readings", column = "time", poll = "5s" }
""",
)

PAGE_ROWS: Final = 256


class SQLite(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "rows"

    _database: sqlite3.Connection | None = None
    connection: Connection | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._path: str = options["path"]
        self._table: str = options["table"]
        self._column: str = options["column"]
        self._columns: tuple[str, ...] = options["columns"]
        self._poll_s: float = options["poll"]
        self._follows: bool = options["follow"]
        self._seeks_end = options["start"] == "end"
        self._rows: deque[tuple[Any, ...]] = deque()
        self._names: list[str] = []
        self._last: list[Any] | None = None
        self._has_row_id = True
        self.connection = Connection("sqlite", self._path)
        self._retry = PollRetry(self.connection, options["on_disconnect"], self._poll_s)

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        if not options["poll"]:
            raise wrong_config(SPEC, "`poll` cannot be 0", 'set it to a duration such as "1s"')

    def pull(self) -> Output | Pending | None:
        if not self._rows:
            try:
                with translated(self._path):
                    self._read_page()
            except DatabaseAway as error:
                self._close()
                return self._retry.failed(str(error))
        if not self._rows:
            return PENDING.after(self._poll_s) if self._follows else None
        value, row_id, *cells = self._rows.popleft()
        self._last = [value, row_id]
        record = dict(zip(self._names, map(from_sql, cells), strict=True))
        return Output(write_json(record), content_type=JSON_TYPE)

    def snapshot(self) -> dict[str, Any] | None:
        """The last row that was returned."""
        return None if self._last is None else {"column": self._column, "last": self._last}

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        if state.get("column") != self._column:
            raise InvalidInput(
                f"the saved position is in the column {state.get('column')!r}, not "
                f"{self._column!r}",
                hint="start with `--fresh` to read the table from its beginning",
            )
        self._last, self._seeks_end = state["last"], False
        self._rows.clear()

    def teardown(self) -> None:
        self._close()
        if self.connection is not None:
            self.connection.close()

    def _read_page(self) -> None:
        database = self._open()
        if self._seeks_end:
            self._last = self._end_of(database)
            self._seeks_end = False
        where, values = self._after_last()
        row_id = "rowid" if self._has_row_id else "NULL"
        order = f"{quoted(self._column)}, rowid" if self._has_row_id else quoted(self._column)
        columns = ", ".join(map(quoted, self._columns)) or "*"
        found = database.execute(
            f"SELECT {quoted(self._column)}, {row_id}, {columns} FROM {quoted(self._table)}"
            f"{where} ORDER BY {order} LIMIT {PAGE_ROWS}",
            values,
        )
        self._names = [column[0] for column in found.description[2:]]
        self._rows.extend(found.fetchall())
        self._retry.succeeded()

    def _after_last(self) -> tuple[str, list[Any]]:
        column = quoted(self._column)
        if self._last is None:
            return f" WHERE {column} IS NOT NULL", []
        if self._has_row_id:
            return f" WHERE ({column}, rowid) > (?, ?)", self._last
        return f" WHERE {column} > ?", self._last[:1]

    def _end_of(self, database: sqlite3.Connection) -> list[Any] | None:
        """The position behind the last row."""
        column, row_id = quoted(self._column), "rowid" if self._has_row_id else "NULL"
        last = database.execute(
            f"SELECT {column}, {row_id} FROM {quoted(self._table)} "
            f"WHERE {column} IS NOT NULL ORDER BY 1 DESC, 2 DESC LIMIT 1"
        ).fetchone()
        return list(last) if last else None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = connect(self._path, read_only=True, wait_s=0)
            self._has_row_id = self._check_table(self._database)
        return self._database

    def _check_table(self, database: sqlite3.Connection) -> bool:
        """Whether the table has row ids. A table that is missing may be created later."""
        found = database.execute(
            "SELECT type, sql FROM sqlite_master WHERE name = ?", (self._table,)
        ).fetchone()
        if found is None:
            raise DatabaseAway(f"there is no table {self._table}")
        names = {row[1] for row in database.execute(f"PRAGMA table_info({quoted(self._table)})")}
        missing = {self._column, *self._columns} - names - {"rowid"}
        if missing:
            raise Unavailable(f"the table {self._table} has no column {min(missing)!r}")
        kind, text = found
        return kind == "table" and "WITHOUT ROWID" not in text.upper()

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
