"""Whole lines on standard output and standard error, whatever prints beside them.

`print` writes a text and its line end separately, so the lines of two threads would be merged. The
`torvyn` command therefore replaces its two streams by ones that share a `LineOutput` each: what a
thread has begun stays with the thread until the line is complete, or the thread flushes it. A line
that others begin meanwhile starts on a line of its own. Streams of the same file, such as those of
a terminal, know of each other.

Whoever writes messages uses `write_lines`, which joins nothing that its thread has begun. Lines of
one flow among several have a prefix: set `line_prefix` where its components are called, and give it
to `write_lines` where a line is written for a component later, or on another thread.

A program that uses Torvyn as a library keeps its own streams; `write_lines` then writes each text
at once.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import IO, Any, Final, TextIO

line_prefix: ContextVar[str] = ContextVar("line_prefix", default="")
"""The text before each line that is printed in this context. With a prefix, no part of a line is
shown before the line is complete."""


@contextmanager
def lines_with(prefix: str) -> Iterator[None]:
    """Lines that are printed in this block have the prefix."""
    token = line_prefix.set(prefix)
    try:
        yield
    finally:
        line_prefix.reset(token)


_BLOCK_BYTES: Final = 8192
"""So many complete lines are written to a file or a pipe at a time, unless it is flushed."""
_LINE_BYTES: Final = 65_536
"""A longer line is written in parts."""


class _Thread(threading.local):
    """A key that no later thread has, unlike the number of a thread."""

    def __init__(self) -> None:
        self.key: Hashable = object()


_thread = _Thread()


def writer_key() -> Hashable:
    """Whose lines this thread writes: its own, or those of the last `write_as`."""
    return _thread.key


def write_as(key: Hashable, prefix: str) -> None:
    """From now on this thread goes on with the lines that were begun under the key, so that they
    stay in order where several threads take turns."""
    _thread.key = key
    line_prefix.set(prefix)


class _Place:
    """A file that streams write to, and who has begun a line there."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open_by: Hashable = None


_places: dict[Hashable, _Place] = {}
_installed: list[TextIO] = []
"""Kept, because a stream closes its file when it is collected."""


class LineOutput(io.BufferedIOBase):
    """Writes lines to `out`, and never a part of a line into another line."""

    # Still there when the interpreter closes the streams, after the names of this module are gone.
    _writer = _thread
    _prefix = line_prefix

    def __init__(
        self, out: IO[bytes], *, is_line_buffered: bool, replaced: TextIO | None = None
    ) -> None:
        self._out = out
        # It would close the file when it is collected.
        self._replaced = replaced
        self._is_line_buffered = is_line_buffered
        self._place = _place_of(out)
        self._begun: dict[Hashable, bytearray] = {}
        self._complete: list[bytes] = []
        self._complete_bytes = 0
        os.register_at_fork(after_in_child=self._forget)

    def write(self, data: Any) -> int:
        data = bytes(data)
        prefix = self._prefix.get()
        key = self._key(prefix)
        with self._place.lock:
            end = data.rfind(b"\n") + 1
            if end:
                self._add(key, bytes(self._begun.pop(key, b"")) + data[:end], prefix)
            if end < len(data):
                begun = self._begun.setdefault(key, bytearray())
                begun += data[end:]
                if len(begun) > _LINE_BYTES:
                    self._show(key, prefix)
        return len(data)

    def write_lines(self, data: bytes, prefix: str) -> None:
        """Adds complete lines that belong to no line that was begun."""
        with self._place.lock:
            self._add(object(), data, prefix)

    def flush(self) -> None:
        """Writes the complete lines, and what this thread has begun, unless another one's line is
        open there."""
        prefix = self._prefix.get()
        key = self._key(prefix)
        with self._place.lock:
            if self._has_ended:
                return
            self._put_complete()
            if key in self._begun and not prefix and self._place.open_by in (None, key):
                self._show(key, prefix)
            self._out.flush()

    def finish(self, prefix: str | None = None) -> None:
        """Also writes what others have begun and will not end, each on a line of its own; with a
        `prefix`, only lines that have it."""
        with self._place.lock:
            if self._has_ended:
                return
            self._put_complete()
            for key in [*self._begun]:
                own = key[1] if isinstance(key, tuple) else ""
                if prefix is None or own == prefix:
                    self._show(key, own)
            self._out.flush()

    @contextmanager
    def reserved(self, limit_s: float) -> Iterator[bool]:
        """Keeps other threads from writing, unless one does not end its write within the limit:
        then it gives False. With -1, it waits for as long as it takes."""
        lock = self._place.lock
        if not lock.acquire(timeout=limit_s):
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    @property
    def _has_ended(self) -> bool:
        """Its file was closed before it, and nothing waits to be written."""
        return self._out.closed and not (self._complete or self._begun)

    def _key(self, prefix: str) -> Hashable:
        return (self._writer.key, prefix) if prefix else self._writer.key

    def _add(self, key: Hashable, lines: bytes, prefix: str) -> None:
        if self._place.open_by is not None:
            self._put_complete()
            self._put(key, self._with_prefix(key, lines, prefix))
            return
        self._complete.append(self._with_prefix(key, lines, prefix))
        self._complete_bytes += len(lines)
        if self._is_line_buffered or self._complete_bytes >= _BLOCK_BYTES:
            self._put_complete()

    def _show(self, key: Hashable, prefix: str) -> None:
        """Writes the part of a line that `key` has begun."""
        self._put_complete()
        self._put(key, self._with_prefix(key, bytes(self._begun.pop(key)), prefix))

    def _put_complete(self) -> None:
        if self._complete:
            lines, self._complete, self._complete_bytes = b"".join(self._complete), [], 0
            self._put(object(), lines)

    def _put(self, key: Hashable, data: bytes) -> None:
        is_open = self._place.open_by is not None and self._place.open_by != key
        if is_open and not data.startswith(b"\n"):
            data = b"\n" + data
        self._place.open_by = None if data.endswith(b"\n") else key
        self._out.write(data)
        # Blocks end where lines end, also where another stream writes to the same file.
        self._out.flush()

    def _with_prefix(self, key: Hashable, data: bytes, prefix: str) -> bytes:
        if not prefix:
            return data
        start = prefix.encode()
        lines = data.replace(b"\n", b"\n" + start, data.count(b"\n", 0, -1))
        return lines if self._place.open_by == key else start + lines

    def _forget(self) -> None:
        """A child prints nothing of its parent's, and none of its threads holds the lock."""
        self._place.lock = threading.RLock()
        self._begun.clear()
        self._complete, self._complete_bytes = [], 0

    def close(self) -> None:
        if not self.closed:
            try:
                self.finish()
            finally:
                super().close()
                self._out.close()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._out.isatty()

    def fileno(self) -> int:
        return self._out.fileno()

    @property
    def name(self) -> Any:
        return self._out.name

    @property
    def raw(self) -> Any:
        return getattr(self._out, "raw", self._out)


def _place_of(out: IO[bytes]) -> _Place:
    try:
        status = os.fstat(out.fileno())
    except (OSError, ValueError):
        return _Place()
    return _places.setdefault((status.st_dev, status.st_ino), _Place())


def line_stream(stream: TextIO) -> TextIO:
    """A text stream of whole lines, in the place of one that has a buffer of bytes."""
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream.buffer, LineOutput):
        return stream
    stream.flush()
    is_line_buffered = stream.line_buffering or stream.write_through
    output = LineOutput(stream.buffer, is_line_buffered=is_line_buffered, replaced=stream)
    lines = io.TextIOWrapper(output, stream.encoding, stream.errors, write_through=True)
    lines.mode = "w"  # type: ignore[misc]
    return lines


def install() -> None:
    """Makes standard output and standard error of this process streams of whole lines."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None:
            _installed.append(line_stream(stream))
            setattr(sys, name, _installed[-1])


def write_lines(stream: TextIO | None, text: str, prefix: str = "") -> None:
    """Writes the text and a line end, apart from what the thread has begun to print.

    A stream whose encoding lacks a character gets its escape.
    """
    if stream is None:
        return
    output = getattr(stream, "buffer", None)
    if isinstance(output, LineOutput):
        output.write_lines(_encode(f"{text}\n", stream), prefix)
    else:
        lines = text.replace("\n", f"\n{prefix}")
        write_text(stream, f"{prefix}{lines}\n")


def write_text(stream: TextIO, text: str) -> None:
    """Writes the text in one call; a character that the encoding lacks as its escape."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(_encode(text, stream).decode(stream.encoding))


def _encode(text: str, stream: TextIO) -> bytes:
    try:
        return text.encode(stream.encoding, stream.errors or "strict")
    except UnicodeEncodeError:
        return text.encode(stream.encoding, "backslashreplace")


def reserved(stream: TextIO | None, limit_s: float) -> AbstractContextManager[bool]:
    """Whether the block may write to the stream: no other thread's write lasts longer than the
    limit, because nobody reads a full pipe."""
    output = getattr(stream, "buffer", None)
    return output.reserved(limit_s) if isinstance(output, LineOutput) else nullcontext(True)


def finish(stream: TextIO, prefix: str | None = None) -> None:
    """Flushes the stream, and writes what any thread has begun to print and will not end; with a
    `prefix`, only lines that have it."""
    output = getattr(stream, "buffer", None)
    output.finish(prefix) if isinstance(output, LineOutput) else stream.flush()
