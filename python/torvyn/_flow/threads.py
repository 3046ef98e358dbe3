"""The threads of the process: workers, the watchdog, and spare ones for calls that may not return.

Workers start with the first flow that needs them and are joined at exit. Importing starts no
thread; a forked child starts its own when it needs them.

The watchdog is one daemon thread that calls back when a time limit passes. Limits are for code that
blocks or spins, so they must not depend on anything that such code can block: an event loop, a
worker or a turn.

A spare thread whose call returns is used again: creating a thread is a large part of the cost of
starting a flow.
"""

from __future__ import annotations

import atexit
import heapq
import logging
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from torvyn._io.resources import allowed_cpus

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._link.plan import Plan
    from torvyn._native import Workers

ResultT = TypeVar("ResultT")

_MOST_IDLE: Final = 4

_idle: list[SpareThread] = []


def run_on_spare_thread(act: Callable[[], None]) -> None:
    """Calls `act`, which raises nothing, on a daemon thread, in the caller's context."""
    try:
        spare = _idle.pop()
    except IndexError:
        spare = SpareThread()
    spare.tasks.put(partial(copy_context().run, act))


def call_on_spare_thread(call: Callable[[], ResultT]) -> Future[ResultT]:
    """The result of a call on a daemon thread. A caller that stops waiting for it loses only the
    thread."""
    future: Future[ResultT] = Future()

    def act() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    run_on_spare_thread(act)
    return future


class SpareThread:
    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="torvyn-spare", daemon=True).start()

    def _run(self) -> None:
        while True:
            act = self.tasks.get()
            act()
            # Otherwise this frame would keep the callable alive until the next call.
            del act
            if len(_idle) >= _MOST_IDLE:
                return
            _idle.append(self)


os.register_at_fork(after_in_child=_idle.clear)

logger = logging.getLogger("torvyn.reactor")

_changed = threading.Condition()
_alarms: list[tuple[float, int, Alarm]] = []
_numbers = count()
_thread: threading.Thread | None = None
_cancelled = 0

_SWEEP_AT = 64
"""How many cancelled alarms may stay in the heap before they are removed."""


class Alarm:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Prevents the call, unless it has begun, and releases the callback."""
        global _cancelled
        with _changed:
            if self._callback is None:
                return
            self._callback = None
            _cancelled += 1
            if _cancelled > max(_SWEEP_AT, len(_alarms) // 2):
                _alarms[:] = [entry for entry in _alarms if entry[2]._callback is not None]
                heapq.heapify(_alarms)
                _cancelled = 0

    def _take(self) -> Callable[[], None] | None:
        callback, self._callback = self._callback, None
        return callback


def set_alarm(after_s: float, callback: Callable[[], None]) -> Alarm:
    """Calls `callback` on the watchdog's thread after `after_s`, unless it is cancelled."""
    global _thread
    new = Alarm(callback)
    with _changed:
        heapq.heappush(_alarms, (time.monotonic() + after_s, next(_numbers), new))
        if _thread is None:
            _thread = threading.Thread(target=_watch, name="torvyn-watchdog", daemon=True)
            _thread.start()
        elif _alarms[0][2] is new:
            _changed.notify()
    return new


def _watch() -> None:
    while True:
        callback = _next_due()
        if callback is not None:
            try:
                callback()
            except Exception:
                logger.exception("failed to apply a time limit")


def _next_due() -> Callable[[], None] | None:
    global _cancelled
    with _changed:
        if not _alarms:
            _changed.wait()
        elif (left_s := _alarms[0][0] - time.monotonic()) > 0:
            _changed.wait(min(left_s, threading.TIMEOUT_MAX))
        else:
            callback = heapq.heappop(_alarms)[2]._take()
            _cancelled -= callback is None
            return callback
    return None


def _reset() -> None:
    """A forked child has neither the watchdog's thread nor the parent's limits."""
    global _changed, _thread, _cancelled
    _changed, _thread, _cancelled = threading.Condition(), None, 0
    _alarms.clear()


os.register_at_fork(after_in_child=_reset)

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
