"""The standard streams of a group's process, connected to the command that started it."""

from __future__ import annotations

import io
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from torvyn._io.line_output import LineOutput, finish
from torvyn.cluster.ray.output_relay import STDERR, STDOUT, OutputAddress


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
