"""The watchdog: one daemon thread per process that calls back when a time limit passes.

Limits are for code that blocks or spins, so nothing that such code could hold up may keep them: no
event loop, no worker, no turn. The thread starts with the first limit.
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
"""How many cancelled alarms may wait for their time before they are thrown out."""


class Alarm:
    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """No call follows, unless one has begun. What the callback holds is released."""
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


def alarm(after_s: float, callback: Callable[[], None]) -> Alarm:
    """Calls `callback` on the watchdog's thread after so many seconds, unless cancelled."""
    global _thread
    made = Alarm(callback)
    with _changed:
        heapq.heappush(_alarms, (time.monotonic() + after_s, next(_numbers), made))
        if _thread is None:
            _thread = threading.Thread(target=_watch, name="torvyn-watchdog", daemon=True)
            _thread.start()
        elif _alarms[0][2] is made:
            _changed.notify()
    return made


def _watch() -> None:
    while True:
        callback = _next_due()
        if callback is not None:
            try:
                callback()
            except Exception:
                logger.exception("a time limit could not be applied")


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


def _forget() -> None:
    """A forked child has no watchdog thread, and none of the parent's limits."""
    global _changed, _thread, _cancelled
    _changed, _thread, _cancelled = threading.Condition(), None, 0
    _alarms.clear()


os.register_at_fork(after_in_child=_forget)
