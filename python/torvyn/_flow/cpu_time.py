"""The CPU time of one thread, or of one task on an event loop, read by another thread.

A thread's time is measured by the kernel, for free. The steps of a task are sampled: while a step
runs nothing else runs on its loop, so its duration is CPU time unless it blocks.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

_ALL_UNTIL: Final = 64
_SAMPLE_EVERY: Final = 16


class ThreadCpuTime:
    """Call `start` and `stop` on the thread, `read_ns` on any."""

    def __init__(self) -> None:
        self._clock_id: int | None = None
        self._stopped_ns: int | None = None

    def start(self) -> None:
        if sys.platform == "linux":
            # As `pthread_getcpuclockid` makes it. That one crashes for a thread that has ended;
            # reading this clock fails instead.
            self._clock_id = (~threading.get_native_id() << 3) | 6

    def stop(self) -> None:
        self._stopped_ns = time.thread_time_ns()

    def read_ns(self) -> int | None:
        """None before the start, or if the system cannot tell."""
        if self._stopped_ns is not None or self._clock_id is None:
            return self._stopped_ns
        try:
            return time.clock_gettime_ns(self._clock_id)
        except OSError:
            return self._stopped_ns


class TimedCoroutine(Coroutine[Any, Any, Result]):
    """A coroutine whose steps are sampled. A task runs it as it would run the original."""

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._coroutine = coroutine
        self._send = coroutine.send
        self._steps = 0
        self.cpu_ns = 0
        """An estimate: the first steps are all timed, later ones by samples."""

    def send(self, value: Any) -> Any:
        self._steps = steps = self._steps + 1
        weight = 1 if steps <= _ALL_UNTIL else _SAMPLE_EVERY
        if steps % weight:
            return self._send(value)
        started_ns = time.perf_counter_ns()
        try:
            return self._send(value)
        finally:
            self.cpu_ns += (time.perf_counter_ns() - started_ns) * weight

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        error = kind if value is None and traceback is None else value
        return self._coroutine.throw(error if isinstance(error, BaseException) else kind)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """`cr_frame` and the like, for stacks in error messages."""
        return getattr(self._coroutine, name)
