"""`lines`: the lines of a file or of standard input, one element each.

Runs on its own thread, because a read of standard input may block. It reads one line at a time. An
invalid line is an error of its own; the next pull continues with the next line. Of a file it saves
the position after the last line that it returned.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import IO, Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn.components.config import parse_config
from torvyn.components.files.file_position import FilePosition
from torvyn.components.files.text_files import open_to_read
from torvyn.components.line_format import LineFormat, line_options
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput, Unavailable, os_reason

SPEC = Spec(
    name="lines",
    role="source",
    summary="Reads the lines of a file or of standard input, without line ends.",
    options=(
        Option("path", "text", "", "The file to read; default: standard input."),
        *line_options(16 * 1024 * 1024),
    ),
    main="path",
    example="""\
[flow.main.nodes.input]
component = "lines"
config = { path = "access.log", errors = "replace" }
""",
)

_KEPT_BYTES: Final = 64 * 1024
"""Of a line over the limit."""


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
        self._format = LineFormat.of(SPEC, options)
        self._name = self._path or "standard input"
        self._number = self._offset = 0
        self._ended = False
        self._busy = threading.Lock()
        self._is_ours = bool(self._path)
        self._stream = open_to_read(SPEC, self._path) if self._path else _standard_input()
        self._is_seekable = self._is_ours and self._stream.seekable()
        self._last_position: dict[str, Any] | None = None

    def pull(self) -> str | Output | None:
        with self._busy:
            while not self._ended and self._stream is not None:
                raw = self._read(self._stream)
                if not raw or self._ended:
                    break
                line = self._decode(self._stream, raw)
                if line is not None:
                    return line
            self._close()
            return None

    def snapshot(self) -> dict[str, Any] | None:
        """The position in the file; None for what cannot be read again."""
        if not self._is_seekable:
            return None
        with self._busy:
            if self._stream is None:
                return self._last_position
            return self._position(self._stream)

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None or self._stream is None or not self._is_seekable:
            return
        position = FilePosition.from_state(state)
        if not position.matches(self._stream.fileno()):
            raise InvalidInput(
                f"{self._name} is not the file that the saved position belongs to",
                hint="start with `--fresh` to read it from its beginning",
            )
        self._stream.seek(position.offset)
        self._offset, self._number = position.offset, position.line

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

    def _read(self, stream: IO[Any]) -> Any:
        try:
            raw = stream.readline(self._format.max_bytes + 2)
        except OSError as error:
            raise Unavailable(f"cannot read {self._name}: {os_reason(error)}") from error
        self._number += bool(raw)
        self._offset += len(raw)
        return raw

    def _decode(self, stream: IO[Any], raw: Any) -> str | Output | None:
        where = f"line {self._number} of {self._name}"
        newline, carriage_return = ("\n", "\r") if isinstance(raw, str) else (b"\n", b"\r")
        line = raw.removesuffix(newline).removesuffix(carriage_return)
        if len(line) > self._format.max_bytes:
            self._skip_line(stream, raw, newline)
            start = line[:_KEPT_BYTES]
            kept = start if isinstance(start, bytes) else start.encode(errors="replace")
            raise self._format.too_long(where, kept)
        if isinstance(line, bytes):
            return self._format.decode(line, where)
        return self._format.check_json(line, where) if self._format.is_json else line

    def _skip_line(self, stream: IO[Any], raw: Any, newline: Any) -> None:
        """Skips the rest of a line over the limit."""
        while raw and not raw.endswith(newline):
            raw = stream.readline(65536)
            self._offset += len(raw)

    def _close(self) -> None:
        self._ended = True
        stream, self._stream = self._stream, None
        if stream is not None and self._is_ours:
            self._last_position = self._position(stream) if self._is_seekable else None
            stream.close()

    def _position(self, stream: IO[Any]) -> dict[str, Any]:
        return FilePosition.of(stream.fileno(), self._offset, self._number).to_state()


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
