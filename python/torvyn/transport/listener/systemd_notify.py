"""Readiness messages to systemd.

A datagram to the socket in `NOTIFY_SOCKET`. Without that variable nothing is sent; sending never
blocks.
"""

from __future__ import annotations

import os
import socket


def notify(*assignments: str) -> bool:
    """Sends `NAME=value` lines, such as `READY=1`; whether that succeeded."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    # An abstract socket name starts with NUL; systemd writes it as `@`.
    address = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(assignments).encode(), address)
    except OSError:
        return False
    return True
