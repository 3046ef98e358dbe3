"""The process's worker threads: started with the first flow that needs them, joined before the
interpreter ends.

No thread exists at import, nor after a fork: a child process starts its own when it needs them.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torvyn._native import Workers

logger = logging.getLogger("torvyn.reactor")

_lock = threading.Lock()
_workers: Workers | None = None
_started_in: int | None = None
_started: dict[int, object] = {}
"""The flows the workers run: kept, or one that nobody else keeps would vanish when it waits."""
_reported: set[tuple[int, int | None]] = set()
"""The flows and nodes that were reported as blocking, each once."""

_STOP_PATIENCE_S = 2.0


def workers(count: int = 0) -> Workers:
    """The workers of this process. The first caller decides how many there are; 0 means one a
    core."""
    global _workers, _started_in
    from torvyn._native import Workers as NativeWorkers

    with _lock:
        if _workers is None or _started_in != os.getpid():
            _workers = NativeWorkers(count or os.cpu_count() or 1, _blocked)
            _started_in = os.getpid()
            atexit.register(stop_workers)
        return _workers


def stop_workers() -> None:
    """Joins the workers; those that a component blocks are left behind and reported."""
    global _workers
    with _lock:
        running, _workers = _workers, None
    if running is None or _started_in != os.getpid():
        return
    left = running.stop(_STOP_PATIENCE_S)
    if left:
        logger.warning("%d worker thread(s) were left behind: a component blocks them", left)


def watch(key: int, flow: object) -> None:
    """Keeps the flow behind a native key until it is over."""
    _started[key] = flow


def unwatch(key: int) -> None:
    _started.pop(key, None)
    if _reported:
        _reported.difference_update([found for found in _reported if found[0] == key])


def _blocked(key: int, node_index: int | None, thread_id: int) -> None:
    if (key, node_index) in _reported:
        return
    _reported.add((key, node_index))
    flow = _started.get(key)
    frame = sys._current_frames().get(thread_id)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
    node = _node_name(flow, node_index)
    logger.warning(
        "%s of flow `%s` blocks its worker; a spare one was started. "
        'Blocking code belongs into a node with run = "thread".\n%s',
        "a component" if node is None else f"node `{node}`",
        getattr(flow, "name", "?"),
        stack,
        extra={"flow": getattr(flow, "name", "?"), "node": node, "event": "worker.blocked"},
    )


def _node_name(flow: object, index: int | None) -> str | None:
    plan = getattr(flow, "plan", None)
    return None if plan is None or index is None else str(plan.nodes[index].name)
