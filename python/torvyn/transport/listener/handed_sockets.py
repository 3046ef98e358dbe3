"""Listening sockets that outlive their process.

`torvyn deploy run` keeps them, and hands them to the process of the next generation. So no
connection is refused when a process ends or crashes: it waits until the next one accepts it.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Final

from torvyn._io.supervision import notify

VARIABLE: Final = "X_TORVYN_SOCKETS"
"""The sockets that were handed over: JSON, descriptors by name. Not set: nobody keeps sockets."""


def take_socket(name: str) -> socket.socket | None:
    """The socket that an earlier process has stored under that name."""
    handed = _handed()
    if handed is None or name not in handed:
        return None
    descriptor = handed.pop(name)
    os.environ[VARIABLE] = json.dumps(handed)
    with suppress(OSError):
        return socket.socket(fileno=descriptor)
    return None


def are_sockets_kept() -> bool:
    """Whether the next process gets the sockets of this one."""
    return _handed() is not None


def store_socket(name: str, sock: socket.socket) -> None:
    """Has the socket kept, if somebody keeps sockets."""
    if are_sockets_kept():
        notify("FDSTORE=1", f"FDNAME={name}", descriptors=(sock.fileno(),))


def _handed() -> dict[str, int] | None:
    try:
        found = json.loads(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return None
    return found if isinstance(found, dict) else None
