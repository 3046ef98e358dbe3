"""`csv`: the rows of a CSV file, each as a JSON object.

A row may span lines. A bad row is an error of its own; the next pull continues with the next row.
The position that it saves is the one after the last row that it returned.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Final

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.files.csv_format import DELIMITER, parse_delimiter
from torvyn.components.files.file_position import FilePosition
from torvyn.components.files.text_files import open_to_read
from torvyn.components.json_fields import JSON_TYPE, write_json
from torvyn.components.line_format import ENCODING, line_encoding
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput, Unavailable, os_reason

SPEC = Spec(
    name="csv",
    role="source",
    summary="Reads the rows of a CSV file as JSON objects.",
    options=(
        Option("path", "text", None, "The file to read.", required=True),
        Option("columns", "words", (), "The columns of a file without a header."),
        DELIMITER,
        Option(
            "numbers",
            "boolean",
            True,
            "Cells that look like JSON numbers become numbers; `007` and `+1` stay text.",
        ),
        ENCODING,
    ),
    main="path",
    example="""\
[flow.main.nodes.readings]
component = "csv"
config = { path = "readings.csv", delimiter = ";" }
""",
)

_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
MAX_NUMBER_CHARACTERS: Final = 300


class Csv(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "rows"

    _file: BinaryIO | None = None
    _raw = b""
    """The lines of the row that is being read."""

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._path: str = options["path"]
        self._numbers: bool = options["numbers"]
        self._encoding = line_encoding(SPEC, options["encoding"])
        self._delimiter = parse_delimiter(SPEC, options["delimiter"])
        self._columns: tuple[str, ...] = _unique(options["columns"], "`columns`")
        self._line = self._offset = 0
        self._file = open_to_read(SPEC, self._path)
        self._is_seekable = self._file.seekable()
        self._start_reading()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_delimiter(SPEC, options["delimiter"])
        _unique(options["columns"], "`columns`")

    def pull(self) -> Output | None:
        if not self._columns:
            header = self._next_row()
            self._columns = _unique(header or (), f"the header of {self._path}")
        try:
            return self._next_record()
        except InvalidInput as error:
            error.refused = self._raw
            raise

    def _next_record(self) -> Output | None:
        row = self._next_row()
        if row is None:
            return None
        if len(row) != len(self._columns):
            raise InvalidInput(
                f"the row that ends on line {self._line} of {self._path} has {len(row)} cells, "
                f"and there are {len(self._columns)} columns"
            )
        record = dict(zip(self._columns, map(self._value, row), strict=True))
        return Output(write_json(record), content_type=JSON_TYPE)

    def snapshot(self) -> dict[str, Any] | None:
        if self._file is None or not self._is_seekable:
            return None
        position = FilePosition.of(self._file.fileno(), self._offset, self._line)
        return {**position.to_state(), "columns": list(self._columns)}

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None or self._file is None or not self._is_seekable:
            return
        position = FilePosition.from_state(state)
        if not position.matches(self._file.fileno()):
            raise InvalidInput(
                f"{self._path} is not the file that the saved position belongs to",
                hint="start with `--fresh` to read it from its beginning",
            )
        self._columns = tuple(state.get("columns") or self._columns)
        self._file.seek(position.offset)
        self._offset, self._line = position.offset, position.line
        self._start_reading()

    def teardown(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _start_reading(self) -> None:
        self._rows = csv.reader(self._lines(), delimiter=self._delimiter, strict=True)

    def _next_row(self) -> list[str] | None:
        """The next row that is not empty, or None at the end."""
        self._raw = b""
        try:
            for row in self._rows:
                if row:
                    return row
        except csv.Error as error:
            self._start_reading()
            raise InvalidInput(f"line {self._line} of {self._path}: {error}") from error
        except (InvalidInput, Unavailable):
            # An exception ends the generator of lines.
            self._start_reading()
            raise
        return None

    def _lines(self) -> Iterator[str]:
        while self._file is not None:
            try:
                raw = self._file.readline()
            except OSError as error:
                raise Unavailable(f"cannot read {self._path}: {os_reason(error)}") from error
            if not raw:
                return
            self._offset += len(raw)
            self._line += 1
            self._raw += raw
            yield self._decode(raw)

    def _decode(self, raw: bytes) -> str:
        if self._line == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf") if self._encoding.startswith("utf-8") else raw
        try:
            return raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"line {self._line} of {self._path} is not valid {self._encoding}: {error.reason}",
                hint="set `encoding` to the encoding of the file",
            ) from error

    def _value(self, cell: str) -> str | int | float | None:
        """A cell as a JSON value; an empty cell is null."""
        if not cell:
            return None
        is_short = len(cell) <= MAX_NUMBER_CHARACTERS
        if not self._numbers or not is_short or not _NUMBER.fullmatch(cell):
            return cell
        if cell.lstrip("-").isdigit():
            return int(cell)
        number = float(cell)
        return cell if number in (float("inf"), float("-inf")) else number


def _unique(columns: tuple[str, ...] | list[str], what: str) -> tuple[str, ...]:
    names = tuple(column.strip() for column in columns)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise wrong_config(SPEC, f"{what} names the column {twice!r} twice")
    return names
