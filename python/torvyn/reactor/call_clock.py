"""The time limit of an async component's calls: one timer for all of them, set anew when it fires.

A call costs one look at the clock; a timer a call would cost more than the call.
"""

from __future__ import annotations

import asyncio


class CallClock:
    """Cancels the task it belongs to when one call takes longer than `limit_s`."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._since_s: float | None = None
        self._has_cut = False

    def attach(self, task: asyncio.Task[None]) -> None:
        self._task, self._loop = task, task.get_loop()

    def begin(self) -> None:
        assert self._loop is not None
        self._since_s = self._loop.time()
        if self._alarm is None:
            self._alarm = self._loop.call_at(self._since_s + self.limit_s, self._look)

    def end(self) -> None:
        self._since_s = None

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def has_cut(self) -> bool:
        """Whether the cancellation that was caught was ours; then the task goes on."""
        cut, self._has_cut = self._has_cut, False
        if cut and self._task is not None:
            self._task.uncancel()
        return cut

    def _look(self) -> None:
        assert self._loop is not None
        assert self._task is not None
        self._alarm = None
        if self._since_s is None:
            return
        due_s = self._since_s + self.limit_s
        if self._loop.time() < due_s:
            self._alarm = self._loop.call_at(due_s, self._look)
            return
        self._has_cut = True
        self._task.cancel()
