"""Drives a flow turn by turn on the caller's thread, for the test kit.

Unlike `Flow.run` it returns when the flow can only wait, so that a test can inspect it, advance the
clock and continue.
"""

from __future__ import annotations

import select
import time

from torvyn._contract.element import Element
from torvyn._contract.enums import TurnStatus
from torvyn._flow.flow import Flow
from torvyn._native import Waker

_POLL_S = 0.002
"""A stage on another thread does not report that it is idle, so it is polled."""


class Stepper:
    """Starts a flow and runs its turns on request."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.outputs: list[Element] = []
        self._execution = flow._execute()
        self._native = self._execution.start()
        self._waker = Waker()
        self._native.drive_from_loop(self._waker, 1)

    @property
    def is_over(self) -> bool:
        return self._native.is_over

    def advance(self, *, until_idle: bool, timeout_s: float) -> bool:
        """Runs until the flow is over or, with `until_idle`, idle. False: not in time."""
        give_up_s = time.monotonic() + timeout_s
        while True:
            status, due_ns = self._native.turn_once()
            self.outputs += self._native.outputs()
            if status is TurnStatus.OVER:
                self._execution.close()
                return True
            if status is TurnStatus.PARKED:
                if until_idle and self._is_idle():
                    return True
                if time.monotonic() > give_up_s:
                    return False
                self._wait(due_ns, until_idle, give_up_s)

    def close(self) -> None:
        """Cancels a flow that still runs and tears the components down."""
        self._execution.close()

    def _is_idle(self) -> bool:
        return self._execution.is_idle

    def _wait(self, due_ns: int | None, until_idle: bool, give_up_s: float) -> None:
        wait_s = max(give_up_s - time.monotonic(), 0.0)
        if due_ns is not None:
            wait_s = min(wait_s, due_ns / 1e9)
        if until_idle:
            wait_s = min(wait_s, _POLL_S)
        select.select([self._waker.fileno()], [], [], wait_s)
        self._waker.take()
