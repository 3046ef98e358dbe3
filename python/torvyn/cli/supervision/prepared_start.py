"""Lets `torvyn deploy run` decide when a prepared flow starts, and end it when it is gone itself.

That process holds the other end of a pipe. A byte starts the flow; the end of the pipe stops it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Final

_TERMINATED: Final = 143


def wait_for_start(limit_s: float, *, can_overlap: bool = False) -> bool:
    """Reports that everything is prepared, and waits. Returns at once, and false, if nobody
    supervises. `limit_s`: how long it takes to stop. `can_overlap`: whether it may start before the
    process that it replaces has ended."""
    from torvyn.edge.running.generation_process import CONTROL, OVERLAPS, PREPARED, STOP_S
    from torvyn.machine.systemd_notify import notify

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
