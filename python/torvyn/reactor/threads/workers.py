"""The worker threads of the process: started with the first flow that needs them, joined at exit.

Importing starts no thread. A forked child starts its own workers when it needs them.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from torvyn._io.resources import allowed_cpus

if TYPE_CHECKING:
    from torvyn._link.plan import Plan
    from torvyn._native import Workers
    from torvyn.reactor.flow import Flow

logger = logging.getLogger("torvyn.reactor")

_lock = threading.Lock()
_workers: Workers | None = None
_started_in: int | None = None
_started: dict[int, tuple[Flow, Plan]] = {}
"""The flows that the workers run. Without this reference a flow could be collected as it waits."""
_reported: set[tuple[int, int | None]] = set()
"""Flows and nodes that were reported as blocking: each is reported once."""

_STOP_TIMEOUT_S = 2.0


def workers(count: int = 0) -> Workers:
    """The workers of this process. The first caller sets their number; 0 means one per
    CPU that the process may use."""
    global _workers, _started_in
    from torvyn._native import Workers as NativeWorkers

    with _lock:
        if _workers is None or _started_in != os.getpid():
            _workers = NativeWorkers(count or allowed_cpus(), _blocked)
            _started_in = os.getpid()
            atexit.register(stop_workers)
        return _workers


def stop_workers() -> None:
    """Joins the workers, and logs those that a component still blocks."""
    global _workers
    with _lock:
        running, _workers = _workers, None
    if running is None or _started_in != os.getpid():
        return
    left = running.stop(_STOP_TIMEOUT_S)
    if left:
        logger.warning("%d worker thread(s) did not end: a component blocks them", left)


def keep_flow(key: int, flow: Flow, plan: Plan) -> None:
    """Keeps a flow alive, by its native key, until it is over. `plan` has the nodes that run."""
    _started[key] = (flow, plan)


def release_flow(key: int) -> None:
    _started.pop(key, None)
    if _reported:
        _reported.difference_update([entry for entry in _reported if entry[0] == key])


def _is_torn_down(flow: Flow) -> bool:
    """Teardown waits for threads of components, has a limit, and reports what exceeds it."""
    native = None if flow._execution is None else flow._execution.native
    return native is not None and native.is_over


def _blocked(key: int, node_index: int | None, thread_id: int) -> None:
    if (key, node_index) in _reported:
        return
    started = _started.get(key)
    if started is not None and _is_torn_down(started[0]):
        return
    _reported.add((key, node_index))
    frame = sys._current_frames().get(thread_id)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
    plan = None if started is None else started[1]
    node = None if plan is None or node_index is None else plan.nodes[node_index].name
    flow = "?" if plan is None else plan.name
    logger.warning(
        "%s of flow `%s` blocks its worker thread, so another one was started. "
        'Set run = "thread" on a node that blocks.\n%s',
        "a component" if node is None else f"node `{node}`",
        flow,
        stack,
        extra={"flow": flow, "node": node, "event": "worker.blocked"},
    )
