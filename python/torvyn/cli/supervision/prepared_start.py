"""Lets `torvyn deploy run` decide when a prepared flow starts, and end it when it is gone itself.

That process holds the other end of a pipe. A byte starts the flow; the end of the pipe stops it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torvyn.link.plan import Plan

_TERMINATED: Final = 143


def wait_for_start(plan: Plan) -> None:
    """Reports that the flow is prepared, and waits. Returns at once if nobody supervises."""
    from torvyn.cli.supervision.unit_options import stop_limit_s
    from torvyn.edge.running.generation_process import CONTROL, PREPARED, STOP_S
    from torvyn.machine.systemd_notify import notify

    number = os.environ.pop(CONTROL, None)
    if number is None:
        return
    limit_s = stop_limit_s(plan)
    notify(f"{PREPARED}=1", f"{STOP_S}={limit_s:g}")
    control = int(number)
    if not os.read(control, 64):
        os._exit(_TERMINATED)
    watcher = threading.Thread(
        target=_stop_at_end, args=(control, limit_s), name="torvyn-supervised", daemon=True
    )
    watcher.start()


def _stop_at_end(control: int, limit_s: float) -> None:
    while os.read(control, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(limit_s)
    os._exit(_TERMINATED)
