"""Ports of the loopback interface."""

from __future__ import annotations

import socket
from typing import Final

from torvyn.errors import ClusterError

HOST: Final = "127.0.0.1"


def choose_port(wanted: int | None, preferred: int, option: str) -> int:
    """The port that the user wants, else the preferred one if it is free, else any other."""
    if wanted is None:
        return preferred if is_free(preferred) else any_free_port()
    if not is_free(wanted):
        raise ClusterError(
            "cluster.port-taken",
            f"another process listens on {HOST}:{wanted}",
            hint=f"stop it, name another port with `{option}`, or leave the option out",
        )
    return wanted


def is_free(port: int) -> bool:
    try:
        _bind(port).close()
    except OSError:
        return False
    return True


def any_free_port() -> int:
    with _bind(0) as sock:
        port: int = sock.getsockname()[1]
        return port


def _bind(port: int) -> socket.socket:
    sock = socket.socket()
    try:
        # As servers do: a port whose last connections are still being closed is free.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
    except BaseException:
        sock.close()
        raise
    return sock
