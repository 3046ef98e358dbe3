"""A word to the service manager: that the server serves, and that it ends.

A datagram to the socket that systemd names in `NOTIFY_SOCKET`. Without one nothing is said, and a
manager that does not listen is never waited for.
"""

from __future__ import annotations

import os
import socket


def notify(*assignments: str) -> bool:
    """Says `NAME=value` lines, such as `READY=1`; whether there was somebody to tell."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    # A name that is not in the file system begins with a NUL, which no variable can hold.
    address = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(assignments).encode(), address)
    except OSError:
        return False
    return True
