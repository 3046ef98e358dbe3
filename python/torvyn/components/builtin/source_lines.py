"""`lines`: the lines of a file or of standard input, one element each.

Runs on its own thread, because a read of standard input may block. It reads one line at a time. An
invalid line is an error of its own; the next pull continues with the next line.
"""

from __future__ import annotations

import codecs
import functools
import os
import sys
import threading
from typing import IO, Any, ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.spec import Option, Spec
from torvyn.components.text_files import open_to_read
from torvyn.contract import Source
from torvyn.errors import InvalidInput, Unavailable

SPEC = Spec(
    name="lines",
    role="source",
    summary="Reads the lines of a file or of standard input, without line ends.",
    options=(
        Option("path", "text", "", "The file to read; default: standard input."),
        Option("encoding", "text", "utf-8", "The text encoding."),
        Option(
            "errors",
            "choice",
            "strict",
            "For invalid bytes: `strict` rejects the line, `replace` replaces them with U+FFFD.",
            choices=("strict", "replace"),
        ),
        Option(
            "max_line",
            "size",
            16 * 1024 * 1024,
            "The maximum length of a line; longer lines are rejected.",
            minimum=1,
        ),
    ),
    main="path",
    example="""\
[flow.main.nodes.input]
component = "lines"
config = { path = "access.log", errors = "replace" }
""",
)


class Lines(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"
    run = "thread"

    _stream: IO[Any] | None = None
    _is_ours = False
    _ended = False

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._path: str = options["path"]
        self._encoding = _line_encoding(options["encoding"])
        self._errors: str = options["errors"]
        self._max_bytes: int = options["max_line"]
        self._name = self._path or "standard input"
        self._number = 0
        self._ended = False
        self._busy = threading.Lock()
        self._is_ours = bool(self._path)
        self._stream = open_to_read(SPEC, self._path) if self._path else _standard_input()

    def pull(self) -> str | None:
        with self._busy:
            line = None if self._ended or self._stream is None else self._read(self._stream)
            if line is None or self._ended:
                self._close()
                return None
            return line

    @property
    def may_be_abandoned(self) -> bool:
        """Whether a read of standard input is blocked, which only its writer can end."""
        return not self._is_ours and self._busy.locked()

    def teardown(self) -> None:
        # Closing the stream would block while a read is blocked: the reader closes it afterwards.
        self._ended = True
        busy = getattr(self, "_busy", None)
        if busy is not None and busy.acquire(blocking=False):
            self._close()
            busy.release()

    def _read(self, stream: IO[Any]) -> str | None:
        try:
            raw = stream.readline(self._max_bytes + 2)
        except OSError as error:
            raise Unavailable(f"cannot read {self._name}: {error.strerror}") from error
        if not raw:
            return None
        self._number += 1
        newline, carriage_return = ("\n", "\r") if isinstance(raw, str) else (b"\n", b"\r")
        line = raw.removesuffix(newline).removesuffix(carriage_return)
        if len(line) > self._max_bytes:
            raise self._too_long(stream, raw, newline)
        return line if isinstance(line, str) else self._decode(line)

    def _decode(self, line: bytes) -> str:
        encoding = self._encoding
        if encoding == "utf-8-sig":
            # Only the first line can have a byte order mark.
            self._encoding = "utf-8"
        try:
            return line.decode(encoding, self._errors)
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"line {self._number} of {self._name} is not valid {self._encoding}: "
                f"{error.reason} at byte {error.start}",
                hint='set `errors = "replace"`, or `encoding` to the encoding of the file',
            ) from error

    def _too_long(self, stream: IO[Any], raw: Any, newline: Any) -> InvalidInput:
        """The error for a line over the limit; skips the rest of the line."""
        while raw and not raw.endswith(newline):
            raw = stream.readline(65536)
        return InvalidInput(
            f"line {self._number} of {self._name} is longer than {self._max_bytes} bytes",
            hint="raise `max_line` to accept longer lines",
        )

    def _close(self) -> None:
        self._ended = True
        stream, self._stream = self._stream, None
        if stream is not None and self._is_ours:
            stream.close()


def _line_encoding(name: str) -> str:
    """The encoding's canonical name; raises if a newline byte does not end a line in it."""
    try:
        encoding = codecs.lookup(name).name
        ends_lines = "a\n".encode(encoding).endswith(b"a\n")
    except (LookupError, TypeError, ValueError):
        raise wrong_config(
            SPEC, f"unknown text encoding {name!r}", 'the usual one is "utf-8"'
        ) from None
    if not ends_lines:
        hint = "convert the file to utf-8 first"
        raise wrong_config(SPEC, f"{encoding} cannot be split into lines by bytes", hint)
    return encoding


def _standard_input() -> IO[Any]:
    stream = sys.stdin
    if stream is None:
        return open_to_read(SPEC, os.devnull)
    if stream is sys.__stdin__:
        return _own_standard_input()
    buffer: IO[Any] = getattr(stream, "buffer", stream)
    return buffer


@functools.cache
def _own_standard_input() -> IO[bytes]:
    # Not `sys.stdin.buffer`: the interpreter closes that at exit and aborts if a thread is blocked
    # in it. All flows share one, because it may have read ahead of a flow.
    return open(0, "rb", closefd=False)
