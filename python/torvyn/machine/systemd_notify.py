"""Messages to systemd: the process is ready, alive or stopping.

A datagram to the socket in `NOTIFY_SOCKET`. Without that variable nothing is sent; sending never
blocks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path


def notify(*assignments: str, descriptors: Sequence[int] = ()) -> bool:
    """Sends `NAME=value` lines, such as `READY=1`; whether that succeeded. The other side gets
    copies of the descriptors."""
    if not is_notified():
        return False
    address = os.environ["NOTIFY_SOCKET"]
    # An abstract socket name starts with NUL; systemd writes it as `@`.
    address = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect(address)
            socket.send_fds(sock, ["\n".join(assignments).encode()], descriptors)
    except OSError:
        return False
    return True


def is_notified() -> bool:
    """Whether systemd has started the process and wants its messages."""
    return os.environ.get("NOTIFY_SOCKET", "").startswith(("/", "@"))


def watchdog_interval_s() -> float | None:
    """How often to send `WATCHDOG=1`: twice per `WatchdogSec`, as systemd recommends. None if
    nobody watches this process."""
    timeout_us, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not timeout_us.isdecimal() or not int(timeout_us) or pid not in ("", str(os.getpid())):
        return None
    return int(timeout_us) / 2e6


def is_systemd_running(root: Path = Path("/")) -> bool:
    """Whether systemd manages this machine, as `sd_booted` decides it."""
    return (root / "run/systemd/system").is_dir()
