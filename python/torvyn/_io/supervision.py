"""What a process tells its supervisor: it is ready, alive or stopping.

The supervisor is systemd, or the `torvyn deploy run` that started the process. A message is a
datagram to the socket in `NOTIFY_SOCKET`. Without that variable nothing is sent; sending never
blocks. `torvyn deploy run` also decides when a prepared flow starts, and ends it when it is gone
itself: it holds the other end of a pipe, in which a byte starts the flow.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PREPARED: Final = "X_TORVYN_PREPARED"
STOP_S: Final = "X_TORVYN_STOP_S"
OVERLAPS: Final = "X_TORVYN_OVERLAPS"
CONTROL: Final = "X_TORVYN_CONTROL_FD"
_TERMINATED: Final = 143


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


def wait_for_start(limit_s: float, *, can_overlap: bool = False) -> bool:
    """Reports that everything is prepared, and waits. Returns at once, and false, if nobody
    supervises. `limit_s`: how long it takes to stop. `can_overlap`: whether it may start before the
    process that it replaces has ended."""
    number = os.environ.pop(CONTROL, None)
    if number is None:
        return False
    overlap = f"{OVERLAPS}={int(can_overlap)}"
    notify(f"{PREPARED}=1", f"{STOP_S}={limit_s:g}", overlap)
    control = int(number)
    if not os.read(control, 64):
        os._exit(_TERMINATED)
    watcher = threading.Thread(
        target=_stop_at_end, args=(control, limit_s), name="torvyn-supervised", daemon=True
    )
    watcher.start()
    return True


def _stop_at_end(control: int, limit_s: float) -> None:
    while os.read(control, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(limit_s)
    os._exit(_TERMINATED)
