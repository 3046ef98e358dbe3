"""Answers `torvyn top`: a Unix socket that gives every caller the state of a running flow.

The socket is in a folder that only its user can enter. A flow runs without it if it cannot be
created. One answer is one JSON document; what a caller sends is not read.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from torvyn.machine.resources import read_resources, resident_bytes

if TYPE_CHECKING:
    from torvyn.reactor import Flow
    from torvyn.reactor.health import HealthCheck

logger = logging.getLogger("torvyn.cli")

VERSION: Final = 1
"""Of the document."""
_SEND_TIMEOUT_S: Final = 2.0
_LONGEST_PATH: Final = 107
"""The kernel's limit for the path of a socket."""


def own_folder() -> Path:
    """Where this process puts its socket. systemd creates a folder for a service."""
    if given := os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        return Path(given)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime, "torvyn")
    return temporary_folder()


def temporary_folder() -> Path:
    """For users without a runtime folder."""
    import tempfile

    return Path(tempfile.gettempdir(), f"torvyn-{os.getuid()}")


class StatusSocket:
    """A context manager: the flow can be asked while the block runs."""

    def __init__(self, flow: Flow, check: HealthCheck) -> None:
        self._flow = flow
        self._check = check
        self._started_s = time.time()
        self._path = own_folder() / f"{os.getpid()}.sock"
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        try:
            self._open()
        except (OSError, ValueError) as error:
            logger.debug("`torvyn top` cannot show this flow: %s", error)
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
        threading.Thread(
            target=self._serve, args=(made,), name="torvyn-status", daemon=True
        ).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
                connection.settimeout(_SEND_TIMEOUT_S)
                connection.sendall(json.dumps(self.document(), default=str).encode())

    def document(self) -> dict[str, Any]:
        statistics, resources = self._flow.statistics, read_resources()
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "flow": self._flow.name,
            "started": self._started_s,
            "health": asdict(self._check.check(statistics)),
            "cpu_s": time.process_time(),
            "resident_bytes": resident_bytes(),
            "memory_limit_bytes": resources.limits.memory_bytes,
            "statistics": statistics.to_dict(),
        }


def make_private(folder: Path) -> None:
    """Creates a folder for this user only; raises if somebody else could write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    is_private = not found.st_mode & 0o022 and found.st_uid == os.getuid()
    if not stat.S_ISDIR(found.st_mode) or not is_private:
        raise ValueError(f"others may write to {folder}")
