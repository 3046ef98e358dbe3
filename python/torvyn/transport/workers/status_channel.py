"""What a worker tells its parent: systemd's protocol, on a socket of its own.

A worker says READY, STOPPING and WATCHDOG as it would to systemd, so it needs to know nothing of
its parent.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Final

_MAX_BYTES: Final = 4096


class StatusChannel:
    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind(str(path))

    def fileno(self) -> int:
        return self._socket.fileno()

    def environment(self, watchdog_s: float | None) -> dict[str, str]:
        """The variables of the worker."""
        names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        inherited = {name: value for name, value in os.environ.items() if name not in names}
        watched = {} if watchdog_s is None else {"WATCHDOG_USEC": str(int(watchdog_s * 2e6))}
        return {**inherited, "NOTIFY_SOCKET": str(self.path), **watched}

    def read(self) -> list[str]:
        """The `NAME=value` lines that have arrived."""
        lines: list[str] = []
        with contextlib.suppress(BlockingIOError):
            while message := self._socket.recv(_MAX_BYTES):
                lines += message.decode(errors="replace").split("\n")
        return lines

    def close(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)
