"""Daemon threads for calls that may never return. A thread whose call returns is used again.

Creating a thread is a large part of the cost of starting a flow.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Final, TypeVar

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
