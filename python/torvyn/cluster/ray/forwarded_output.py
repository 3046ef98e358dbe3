"""The standard streams of a group's process, connected to the command that started it."""

from __future__ import annotations

import io
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from torvyn.cluster.ray.output_relay import STDERR, STDOUT, OutputAddress


class _Unbuffered(io.FileIO):
    """Hands everything to the kernel at once: a buffer would die with the process."""

    def write(self, data: Any) -> int:
        view, done = memoryview(data).cast("B"), 0
        while done < len(view):
            done += super().write(view[done:]) or 0
        return done


class ForwardedStream(io.TextIOWrapper):
    """A text stream that says whether its other end is a terminal."""

    def __init__(self, descriptor: int, address: OutputAddress) -> None:
        raw: Any = _Unbuffered(descriptor, "w", closefd=False)
        super().__init__(raw, address.encoding, "backslashreplace", write_through=True)
        self._is_terminal = address.is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


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
        setattr(sys, name, ForwardedStream(stream, address))
        try:
            yield
        finally:
            # The command may have gone; then nobody reads what is left.
            with suppress(OSError, ValueError):
                getattr(sys, name).flush()
            setattr(sys, name, before)
            os.dup2(copy, stream)
            os.close(copy)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
