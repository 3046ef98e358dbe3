"""`csv`: writes JSON objects as the rows of a CSV file.

The header is written once, when the file is empty. A row is written completely or not at all.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.files.append_file import MODE, PATH, AppendFile
from torvyn.components.files.csv_format import DELIMITER, parse_delimiter
from torvyn.components.json_fields import (
    EXTRA,
    MISSING,
    get_field,
    parse_object,
    reject_extra,
    write_json,
)
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable

SPEC = Spec(
    name="csv",
    role="sink",
    summary="Writes JSON objects as the rows of a CSV file.",
    options=(
        PATH,
        Option(
            "columns",
            "words",
            (),
            "Dotted paths to the fields; default: the header of the file, or the fields of the "
            "first object.",
        ),
        DELIMITER,
        MODE,
        EXTRA,
        Option("fsync", "boolean", False, "Wait for the disk before a row counts as delivered."),
    ),
    main="path",
    example="""\
[flow.main.nodes.table]
component = "csv"
config = { path = "hourly.csv", columns = ["device", "mean"], extra = "ignore" }
""",
)


class Csv(Sink):
    spec: ClassVar[Spec] = SPEC
    unit = "rows"

    _file: AppendFile | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._path: str = options["path"]
        self._delimiter = parse_delimiter(SPEC, options["delimiter"])
        self._columns: tuple[str, ...] = options["columns"]
        self._ignores_extra = options["extra"] == "ignore"
        truncate = options["mode"] == "truncate" and not self.is_successor
        self._file = AppendFile(SPEC, self._path, truncate=truncate, fsync=options["fsync"])
        self._file.end_line()
        self._needs_header = self._file.is_regular and not self._file.size_bytes
        if self._file.is_regular and not self._needs_header:
            self._columns = self._check_header()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_delimiter(SPEC, options["delimiter"])

    def push(self, element: Element) -> None:
        raise_refusal(self.push_batch((element,)))

    def push_batch(self, elements: Sequence[Element]) -> Results | None:
        if self._file is None:
            raise Unavailable(f"cannot write {self._path}: it is not open")
        columns = self._columns

        def row_of(element: Element) -> list[str]:
            nonlocal columns
            record = parse_object(element)
            columns = columns or tuple(record)
            return self._row(columns, record)

        results = BatchResults(elements, row_of)
        rows = results.values
        if rows and self._needs_header:
            rows.insert(0, list(columns))
        self._file.write(self._encode(rows))
        if rows:
            self._columns, self._needs_header = columns, False
        return results.answer

    def teardown(self) -> None:
        if self._file is not None:
            self._file.close()

    def _check_header(self) -> tuple[str, ...]:
        """The columns of the file, which must be those of the config."""
        with open(os.path.expanduser(self._path), encoding="utf-8", newline="") as file:
            header = tuple(next(csv.reader(file, delimiter=self._delimiter), ()))
        if self._columns and header != self._columns:
            found, wanted = (", ".join(names) for names in (header, self._columns))
            raise wrong_config(
                SPEC,
                f"the columns of {self._path} are {found}, not {wanted}",
                'write to another file, or set `mode = "truncate"`',
            )
        return header

    def _row(self, columns: tuple[str, ...], record: dict[str, Any]) -> list[str]:
        if not self._ignores_extra:
            reject_extra(record, columns, self._path)
        return [_cell(get_field(record, column)) for column in columns]

    def _encode(self, rows: list[list[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        return text.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None or value is MISSING:
        return ""
    return value if isinstance(value, str) else write_json(value)
