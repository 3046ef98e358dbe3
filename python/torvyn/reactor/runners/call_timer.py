"""The time limit of an async component's calls: one timer for all of them.

The timer fires every quarter of the limit, so a call costs two assignments and no timer of its own.
A call is therefore cancelled between its limit and a quarter more.
"""

from __future__ import annotations

import asyncio
from typing import Final

_CHECKS: Final = 4
"""Checks per limit."""


class CallTimer:
    """Cancels its task when one call takes longer than `limit_s`."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_call = False
        self._calls = 0
        self._last_check = (0, 0)
        """The call that was running at the last check, and how many checks have seen it."""
        self._has_timed_out = False

    def attach(self, task: asyncio.Task[None]) -> None:
        self._task, self._loop = task, task.get_loop()

    def begin(self) -> None:
        self._is_in_call = True
        self._calls += 1
        if self._timer is None:
            self._schedule()

    def end(self) -> None:
        self._is_in_call = False

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_timeout(self) -> bool:
        """Whether this timer caused the cancellation that was caught; if so, undoes it, and the
        task goes on."""
        has_timed_out, self._has_timed_out = self._has_timed_out, False
        if has_timed_out and self._task is not None:
            self._task.uncancel()
        return has_timed_out

    def _schedule(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(self.limit_s / _CHECKS, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._is_in_call:
            return
        call, checks = self._last_check
        self._last_check = (self._calls, checks + 1 if call == self._calls else 1)
        # The first check may come right after the call began: one more covers the whole limit.
        if self._last_check[1] <= _CHECKS:
            self._schedule()
            return
        assert self._task is not None
        self._has_timed_out = True
        self._task.cancel()
