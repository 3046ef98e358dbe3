"""Whether a server that a test has started listens on its port of the loopback interface."""

from __future__ import annotations

import socket


def is_open(port: int) -> bool:
    """A connection to a port on which nobody listens yet can meet itself: the system may choose the
    same port for its other end."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as probe:
            return bool(probe.getsockname() != probe.getpeername())
    except OSError:
        return False
