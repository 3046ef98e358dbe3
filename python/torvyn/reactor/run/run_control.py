"""What other threads may do to one run: cancel or drain it, and wait for its start and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from torvyn._native import NativeFlow


class RunControl:
    """Cancels and drains a run, also before its native flow exists."""

    def __init__(self, limit: int | None) -> None:
        self._native: NativeFlow | None = None
        self._limit = limit
        self._is_cancelled = self._is_drained = False

    def attach(self, native: NativeFlow) -> None:
        if self._limit is not None:
            native.limit(self._limit)
        self._native = native
        if self._is_drained:
            native.drain()
        if self._is_cancelled:
            native.cancel()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._native is not None:
            self._native.cancel()

    def drain(self) -> None:
        self._is_drained = True
        if self._native is not None:
            self._native.drain()


class RunEvents:
    """Notifies those who wait for the start or the end of a run."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.on_end: Callable[[], None] | None = None
        self._started: threading.Event | None = None
        self._end_lock = threading.Lock()

    def wait_for_start(self, start: Callable[[], None]) -> None:
        """Calls `start`, then waits until all components are initialized or the run has failed."""
        self._started = threading.Event()
        start()
        self._started.wait()

    def set_started(self) -> None:
        if self._started is not None:
            self._started.set()

    def begin_end(self) -> bool:
        """True for the first caller only, which then ends the run."""
        return self._end_lock.acquire(blocking=False)

    def set_over(self) -> None:
        self.set_started()
        self.over.set()
        if self.on_end is not None:
            self.on_end()
            self.on_end = None


def cancel_on_this_thread(native: NativeFlow) -> None:
    """Cancels the flow and runs its last turn."""
    native.cancel()
    native.drive(False, False)
