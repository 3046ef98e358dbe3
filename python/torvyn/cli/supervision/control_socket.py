"""Answers `torvyn reload`: a second Unix socket, which takes requests to a running flow.

A request is one line of JSON, and so is its answer. Whoever can connect is the user of the process.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from torvyn.cli.supervision.unix_server import UnixServer
from torvyn.errors import TorvynError

Command = Callable[[dict[str, Any]], dict[str, Any]]

ENDING: Final = "control"
_MOST_BYTES: Final = 1 << 20


class ControlSocket(UnixServer):
    ending = ENDING
    timeout_s = 30.0

    def __init__(self, commands: Mapping[str, Command], number: int | None = None) -> None:
        super().__init__(number)
        self._commands: Final = commands

    def answer(self, connection: socket.socket) -> None:
        connection.sendall(json.dumps(self._answer(_line(connection))).encode() + b"\n")

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            act = self._commands[request["command"]]
        except (ValueError, KeyError, TypeError):
            return {"errors": [{"code": "cli.bad-value", "message": "unknown request"}]}
        try:
            return act(request)
        except TorvynError as error:
            return {"errors": [each.to_dict() for each in error.diagnostics]}
        except Exception as error:
            # The flow goes on; the person who asked learns why nothing happened.
            return {"errors": [{"code": "cli.bug", "message": f"{type(error).__name__}: {error}"}]}


def request(path: Path, command: str, **fields: Any) -> dict[str, Any]:
    """Sends a request to the process with this socket; raises `OSError` or `ValueError`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(120.0)
        sock.connect(str(path))
        sock.sendall(json.dumps({"command": command, **fields}).encode() + b"\n")
        answer = json.loads(_line(sock))
    if not isinstance(answer, dict):
        raise ValueError("the answer is not an object")
    return answer


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < _MOST_BYTES:
        chunk = connection.recv(1 << 16)
        if not chunk:
            break
        received += chunk
    return received
