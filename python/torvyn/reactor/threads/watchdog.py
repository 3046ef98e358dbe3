"""The watchdog: one daemon thread per process that calls back when a time limit passes.

Limits are for code that blocks or spins, so they must not depend on anything that such code can
block: an event loop, a worker or a turn. The thread starts with the first limit.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import count

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
