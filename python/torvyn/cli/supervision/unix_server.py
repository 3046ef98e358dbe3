"""A Unix socket in a folder that only its user can enter, served by a thread.

A flow runs without it if it cannot be created.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from torvyn.components.restart import keep_running

logger = logging.getLogger("torvyn.cli")

_LONGEST_PATH: Final = 107
"""The kernel's limit for the path of a socket."""


def own_folder() -> Path:
    """Where this process puts its sockets. systemd creates a folder for a service."""
    if given := os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        return Path(given)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime, "torvyn")
    return temporary_folder()


def temporary_folder() -> Path:
    """For users without a runtime folder."""
    import tempfile

    return Path(tempfile.gettempdir(), f"torvyn-{os.getuid()}")


class UnixServer:
    """A context manager: callers are answered while the block runs."""

    ending = "sock"
    """Of the name of its file."""
    timeout_s: float
    """For reading from and sending to one caller."""

    def __init__(self, number: int | None = None) -> None:
        """`number`: of a flow whose process runs several."""
        name = str(os.getpid()) if number is None else f"{os.getpid()}-{number}"
        self._path = own_folder() / f"{name}.{self.ending}"
        self._socket: socket.socket | None = None
        self._closed = threading.Event()

    def answer(self, connection: socket.socket) -> None:
        """Answers one caller."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._open()
        except (OSError, ValueError) as error:
            logger.debug("other commands cannot reach this flow: %s", error)
        return self

    def _open(self) -> None:
        make_private(self._path.parent)
        if len(os.fsencode(self._path)) > _LONGEST_PATH:
            raise ValueError(f"the path {self._path} is too long for a socket")
        with suppress(FileNotFoundError):
            # Left by a process that had the same number.
            self._path.unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(str(self._path))
            made.listen()
        except OSError:
            made.close()
            raise
        self._socket = made
        name = f"torvyn-{self.ending}"
        loop = partial(keep_running, partial(self._serve, made), self._closed.wait)
        threading.Thread(target=loop, name=name, daemon=True).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed.set()
        if self._socket is not None:
            with suppress(OSError):
                # Ends the `accept` of the other thread, which `close` does not.
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            with suppress(OSError):
                self._path.unlink()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(self.timeout_s)
                self.answer(connection)


def make_private(folder: Path) -> None:
    """Creates a folder for this user only; raises if somebody else could write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    is_private = not found.st_mode & 0o022 and found.st_uid == os.getuid()
    if not stat.S_ISDIR(found.st_mode) or not is_private:
        raise ValueError(f"others may write to {folder}")
