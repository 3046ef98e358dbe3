"""Lines of bytes as elements: their options, their limit, their encoding, their format.

The sources that read lines share it, so that a line means the same in a file, on a serial port and
on a socket.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from torvyn._contract.element import Element, Output
from torvyn.components.config import wrong_config
from torvyn.components.json_fields import JSON_TYPE, parse_json, write_json
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput

FORMAT: Final = Option(
    "format",
    "choice",
    "text",
    "`text` takes any line, `jsonl` rejects lines that are not JSON and skips empty ones.",
    choices=("text", "jsonl"),
)
SINK_FORMAT: Final = Option(
    "format",
    "choice",
    "text",
    "`text` sends payloads that are one line, `jsonl` any JSON as one line.",
    choices=("text", "jsonl"),
)
ENCODING: Final = Option("encoding", "text", "utf-8", "The text encoding.")
ERRORS: Final = Option(
    "errors",
    "choice",
    "strict",
    "For invalid bytes: `strict` rejects the line, `replace` replaces them with U+FFFD.",
    choices=("strict", "replace"),
)


def max_line(default: int) -> Option:
    return Option(
        "max_line",
        "size",
        default,
        "The maximum length of a line; longer lines are rejected.",
        minimum=1,
    )


def line_options(max_bytes: int) -> tuple[Option, ...]:
    """The options of a source of lines."""
    return (FORMAT, ENCODING, ERRORS, max_line(max_bytes))


@dataclass(slots=True)
class LineFormat:
    """Decodes lines. `where` in its methods names the line, as in `line 3 of access.log`."""

    encoding: str
    errors: str
    is_json: bool
    max_bytes: int

    @classmethod
    def of(cls, spec: Spec, options: dict[str, Any]) -> LineFormat:
        encoding = line_encoding(spec, options["encoding"])
        is_json = options["format"] == "jsonl"
        return cls(encoding, options["errors"], is_json, options["max_line"])

    def decode(self, line: bytes, where: str) -> str | Output | None:
        """A line without its end as an element; None for an empty line that carries nothing."""
        try:
            text = self.decode_text(line, where)
            return self.check_json(text, where) if self.is_json else text
        except InvalidInput as error:
            error.refused = line
            raise

    def decode_text(self, line: bytes, where: str) -> str:
        encoding = self.encoding
        if encoding == "utf-8-sig":
            # Only the first line can have a byte order mark.
            self.encoding = "utf-8"
        try:
            return line.decode(encoding, self.errors)
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"{where} is not valid {self.encoding}: {error.reason} at byte {error.start}",
                hint='set `errors = "replace"`, or `encoding` to the encoding of the data',
            ) from error

    def check_json(self, text: str, where: str) -> Output | None:
        """The line as JSON; None if it is empty."""
        if not text.strip():
            return None
        try:
            parse_json(text)
        except InvalidInput as error:
            raise InvalidInput(f"{where} is {error}") from error
        return Output(text, content_type=JSON_TYPE)

    def too_long(self, where: str, start: bytes = b"") -> InvalidInput:
        """`start`: as much of the line as was kept."""
        error = InvalidInput(
            f"{where} is longer than {self.max_bytes} bytes",
            hint="raise `max_line` to accept longer lines",
        )
        error.refused = start
        return error


class SplitLine(NamedTuple):
    """A line that was split off."""

    data: bytes | None
    """Without its end; None if the line is longer than the limit."""
    size_bytes: int
    """Its length with its end."""


class LineSplitter:
    """Splits a stream of bytes into lines. Keeps at most one line within the limit in memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._skipped_bytes = 0

    def feed(self, data: bytes) -> list[SplitLine]:
        """The lines that end in the data."""
        first, *others = data.split(b"\n")
        self._extend(first)
        if not others:
            return []
        last = others.pop()
        lines = [self._take(1), *(self._line(line, len(line) + 1) for line in others)]
        self._extend(last)
        return lines

    def flush(self) -> SplitLine | None:
        """The rest of the stream as a line, if there is one."""
        return self._take(0) if self._rest or self._skipped_bytes else None

    def _extend(self, part: bytes) -> None:
        # One byte more than the limit may be the carriage return before the line end.
        if not self._skipped_bytes and len(self._rest) + len(part) <= self._max_bytes + 1:
            self._rest += part
            return
        self._skipped_bytes += len(self._rest) + len(part)
        self._rest.clear()

    def _take(self, end_bytes: int) -> SplitLine:
        if self._skipped_bytes:
            line = SplitLine(None, self._skipped_bytes + end_bytes)
        else:
            line = self._line(bytes(self._rest), len(self._rest) + end_bytes)
        self._rest.clear()
        self._skipped_bytes = 0
        return line

    def _line(self, data: bytes, size_bytes: int) -> SplitLine:
        data = data.removesuffix(b"\r")
        return SplitLine(data if len(data) <= self._max_bytes else None, size_bytes)


def encode_line(element: Element, *, as_json: bool) -> bytes:
    """The element as one line with its end. A payload that is not one line is rejected, or, if it
    is JSON, written as one."""
    if as_json:
        return encode_json_line(element)
    data = bytes(element.data)
    if b"\n" in data:
        raise InvalidInput("it contains a line end, so it is not one line")
    return data + b"\n"


def encode_json_line(element: Element) -> bytes:
    text = element.text.strip()
    value = parse_json(text)
    if "\n" in text or "\r" in text:
        # A line end between the tokens of JSON is white space.
        text = write_json(value)
    return text.encode() + b"\n"


def line_encoding(spec: Spec, name: str) -> str:
    """The encoding's canonical name; raises if a newline byte does not end a line in it."""
    try:
        encoding = codecs.lookup(name).name
        ends_lines = "a\n".encode(encoding).endswith(b"a\n")
    except (LookupError, TypeError, ValueError):
        raise wrong_config(
            spec, f"unknown text encoding {name!r}", 'the usual one is "utf-8"'
        ) from None
    if not ends_lines:
        hint = "convert the file to utf-8 first"
        raise wrong_config(spec, f"{encoding} cannot be split into lines by bytes", hint)
    return encoding
