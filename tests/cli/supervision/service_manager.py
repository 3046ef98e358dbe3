"""What systemd does for a service, as far as messages go: a socket that collects them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Message = dict[str, str]


class ServiceManager:
    def __init__(self, sock: socket.socket, address: str) -> None:
        self._socket = sock
        self._address = address

    def environ(self, watchdog_s: float | None = None) -> dict[str, str]:
        """The environment of a service."""
        watched = {} if watchdog_s is None else {"WATCHDOG_USEC": str(round(watchdog_s * 1e6))}
        return {**os.environ, "NOTIFY_SOCKET": self._address, **watched}

    def receive(self) -> Message:
        """The next message, by the names of its assignments."""
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def receive_until(self, is_wanted: Callable[[Message], bool]) -> list[Message]:
        """All messages up to the first that is wanted."""
        messages = [self.receive()]
        while not is_wanted(messages[-1]):
            messages.append(self.receive())
        return messages


@contextmanager
def service_manager(folder: Path) -> Iterator[ServiceManager]:
    address = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(30)
        yield ServiceManager(sock, address)
