"""Lines of bytes as elements: their options, their limit, their encoding, their format.

The sources that read lines share it, so that a line means the same in a file, on a serial port and
on a socket.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any, Final

from torvyn.components.config import wrong_config
from torvyn.components.json_fields import JSON_TYPE, parse_json
from torvyn.components.spec import Option, Spec
from torvyn.contract import Output
from torvyn.errors import InvalidInput

FORMAT: Final = Option(
    "format",
    "choice",
    "text",
    "`text` takes any line, `jsonl` rejects lines that are not JSON and skips empty ones.",
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
        text = self.decode_text(line, where)
        if not self.is_json:
            return text
        return self.check_json(text, where)

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

    def too_long(self, where: str) -> InvalidInput:
        return InvalidInput(
            f"{where} is longer than {self.max_bytes} bytes",
            hint="raise `max_line` to accept longer lines",
        )


def strip_line_end(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n").removesuffix(b"\r")


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
