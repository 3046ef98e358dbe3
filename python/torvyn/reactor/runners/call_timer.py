"""The time limit of an async component's calls: one timer for all of them, a quarter of the limit
apart.

A call costs two assignments; a timer or a look at the clock for each would cost more than the call.
A call is therefore cut between its limit and a quarter more.
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
        self._is_in_call = False
        self._calls = 0
        self._seen = (0, 0)
        """The call that was running at the last looks, and at how many of them."""
        self._has_cut = False

    def attach(self, task: asyncio.Task[None]) -> None:
        self._task, self._loop = task, task.get_loop()

    def begin(self) -> None:
        self._is_in_call = True
        self._calls += 1
        if self._alarm is None:
            self._set_alarm()

    def end(self) -> None:
        self._is_in_call = False

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

    def _set_alarm(self) -> None:
        assert self._loop is not None
        self._alarm = self._loop.call_later(self.limit_s / 4, self._look)

    def _look(self) -> None:
        self._alarm = None
        if not self._is_in_call:
            return
        call, looks = self._seen
        self._seen = (self._calls, looks + 1 if call == self._calls else 1)
        # Seen five times, a quarter apart: it has been running for the whole limit.
        if self._seen[1] < 5:
            self._set_alarm()
            return
        assert self._task is not None
        self._has_cut = True
        self._task.cancel()
