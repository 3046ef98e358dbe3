"""What the groups print, on the standard output of the command that started them.

A process of a group writes to a socket as if it were its standard output. What it wrote before it
was killed is in the hands of the kernel, which still delivers it.
"""

from __future__ import annotations

import hmac
import io
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from torvyn._io.line_output import LineOutput, finish


class _Unbuffered(io.FileIO):
    """Hands everything to the kernel at once: a buffer would die with the process. Says whether its
    other end is a terminal."""

    def __init__(self, descriptor: int, *, is_terminal: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, data: Any) -> int:
        view, done = memoryview(data).cast("B"), 0
        while done < len(view):
            done += super().write(view[done:]) or 0
        return done


def _stream(descriptor: int, address: OutputAddress) -> TextIO:
    raw = _Unbuffered(descriptor, is_terminal=address.is_terminal)
    lines = LineOutput(raw, is_line_buffered=True)
    return io.TextIOWrapper(lines, address.encoding, "backslashreplace", write_through=True)


@contextmanager
def forward_output(address: OutputAddress) -> Iterator[None]:
    """What this process prints, by Python or by a library, goes to the address."""
    with _forwarded(STDOUT, address), _forwarded(STDERR, address):
        yield


@contextmanager
def _forwarded(stream: int, address: OutputAddress) -> Iterator[None]:
    name = {STDOUT: "stdout", STDERR: "stderr"}[stream]
    before: TextIO = getattr(sys, name)
    copy = os.dup(stream)
    with address.connect(stream) as connection:
        os.dup2(connection.fileno(), stream)
        setattr(sys, name, _stream(stream, address))
        try:
            yield
        finally:
            # The command may have gone; then nobody reads what is left.
            with suppress(OSError, ValueError):
                finish(getattr(sys, name))
            setattr(sys, name, before)
            os.dup2(copy, stream)
            os.close(copy)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)


STDOUT: Final = 1
STDERR: Final = 2

_CHUNK_BYTES: Final = 1 << 16
_GREETING_BYTES: Final = 512
_LINE_S: Final = 0.2
"""How long others wait for the end of a line that a process has begun."""

Write = Callable[[int, bytes], None]
OnStart = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OutputAddress:
    """Where a process sends what it prints, and how its streams behave."""

    host: str
    port: int
    token: str = field(repr=False)
    is_terminal: bool = False
    encoding: str = "utf-8"
    process: str = ""
    """Who sends: each of its processes introduces itself by this name."""

    def connect(self, stream: int) -> socket.socket:
        """A connection that takes what is printed to the stream."""
        connection = socket.create_connection((self.host, self.port), timeout=30)
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(f"{self.token} {stream} {self.process}\n".encode())
        return connection


@dataclass(slots=True)
class _Printer:
    """One stream of one process."""

    stream: int = 0
    """0 until it has introduced itself."""
    waiting: bytearray = field(default_factory=bytearray)
    waiting_since_s: float = 0.0

    @property
    def is_patient(self) -> bool:
        """Whether it still waits for another process to finish its line."""
        return time.monotonic() - self.waiting_since_s < _LINE_S


class OutputRelay:
    """Listens until it is closed; calls `write` on its own thread."""

    on_start: OnStart | None = None
    """Called on that thread with the name of each process that connects."""

    def __init__(self, write: Write, host: str = "127.0.0.1") -> None:
        self._write = write
        self._server = socket.create_server((host, 0))
        self._server.setblocking(False)
        self._token = secrets.token_hex(16)
        self._printers: dict[socket.socket, _Printer] = {}
        self._in_line: dict[int, socket.socket | None] = {STDOUT: None, STDERR: None}
        """By stream: who has begun a line and not finished it."""
        self._selector = selectors.DefaultSelector()
        self._receiver, self._waker = socket.socketpair()
        self._is_closing = threading.Event()
        self._close_by_s = 0.0
        for listening in (self._server, self._receiver):
            self._selector.register(listening, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="torvyn-output", daemon=True)
        self._thread.start()

    def address(self, *, is_terminal: bool = False, encoding: str = "utf-8") -> OutputAddress:
        host, port = self._server.getsockname()[:2]
        return OutputAddress(host, port, self._token, is_terminal, encoding)

    def close(self, timeout_s: float = 5.0) -> None:
        """Waits until all processes have closed their streams, then stops."""
        self._close_by_s = time.monotonic() + timeout_s
        self._is_closing.set()
        with suppress(OSError):
            self._waker.send(b"\0")
        self._thread.join(timeout_s + 1)

    def _run(self) -> None:
        try:
            while not self._is_over():
                for key, _ in self._selector.select(_LINE_S):
                    self._on_ready(key.fileobj)  # type: ignore[arg-type]
                for connection, printer in self._printers.items():
                    self._print(connection, printer)
        finally:
            for connection in (*self._printers, self._server, self._receiver, self._waker):
                connection.close()
            self._selector.close()

    def _is_over(self) -> bool:
        if not self._is_closing.is_set():
            return False
        return not self._printers or time.monotonic() > self._close_by_s

    def _on_ready(self, ready: socket.socket) -> None:
        if ready is self._receiver:
            ready.recv(64)
        elif ready is self._server:
            connection, _ = ready.accept()
            self._printers[connection] = _Printer()
            self._selector.register(connection, selectors.EVENT_READ)
        else:
            self._read(ready, self._printers[ready])

    def _read(self, connection: socket.socket, printer: _Printer) -> None:
        try:
            data = connection.recv(_CHUNK_BYTES)
        except OSError:
            data = b""
        if not printer.waiting:
            printer.waiting_since_s = time.monotonic()
        printer.waiting += data
        is_known = bool(printer.stream) or self._greet(printer)
        if is_known:
            self._print(connection, printer)
        if not data or (not is_known and len(printer.waiting) > _GREETING_BYTES):
            self._forget(connection, printer)

    def _greet(self, printer: _Printer) -> bool:
        """Reads the first line: the token, the stream and the name of the process."""
        line, newline, rest = bytes(printer.waiting).partition(b"\n")
        token, _, names = line.partition(b" ")
        stream, _, process = names.partition(b" ")
        if not newline or not hmac.compare_digest(token, self._token.encode()):
            return False
        printer.stream = STDERR if stream == b"2" else STDOUT
        printer.waiting[:] = rest
        if printer.stream == STDOUT and self.on_start is not None:
            self.on_start(process.decode())
        return True

    def _print(self, connection: socket.socket, printer: _Printer) -> None:
        """Writes what waits, unless another process is in the middle of a line."""
        if not printer.stream or not printer.waiting:
            return
        if self._in_line[printer.stream] not in (None, connection) and printer.is_patient:
            return
        data = bytes(printer.waiting)
        printer.waiting.clear()
        self._in_line[printer.stream] = None if data.endswith(b"\n") else connection
        self._write(printer.stream, data)

    def _forget(self, connection: socket.socket, printer: _Printer) -> None:
        self._selector.unregister(connection)
        connection.close()
        del self._printers[connection]
        if printer.stream:
            if printer.waiting:
                self._write(printer.stream, bytes(printer.waiting))
            if self._in_line[printer.stream] is connection:
                self._in_line[printer.stream] = None
