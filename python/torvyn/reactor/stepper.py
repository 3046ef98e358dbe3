"""A flow driven by hand: turn by turn on the caller's thread, as far as it goes. For the test kit.

Unlike `Flow.run` it comes back when the flow can only wait, so that a test may look, move the
clock and go on.
"""

from __future__ import annotations

import select
import time

from torvyn._native import Waker
from torvyn.contract import Element
from torvyn.reactor.flow import Flow

_LOOK_AGAIN_S = 0.002
"""A stage on another thread does not tell that it has come to rest: it is asked."""


class Stepper:
    """Starts a flow and runs its turns when told to."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.outputs: list[Element] = []
        self._execution = flow._execute()
        self._native = self._execution.start()
        self._waker = Waker()
        self._native.attend_loop(self._waker, 1)

    @property
    def is_over(self) -> bool:
        return self._native.is_over

    def go(self, *, until_idle: bool, timeout_s: float) -> bool:
        """Runs on until the flow is over or, when asked, idle. False: not in time."""
        give_up_s = time.monotonic() + timeout_s
        while True:
            status, due_ns = self._native.turn_once()
            self.outputs += self._native.outputs()
            if status == "over":
                self._execution.leave()
                return True
            if status == "parked":
                if until_idle and self._is_idle():
                    return True
                if time.monotonic() > give_up_s:
                    return False
                self._wait(due_ns, until_idle, give_up_s)

    def close(self) -> None:
        """Cancels what still runs and tears the components down."""
        self._execution.leave()

    def _is_idle(self) -> bool:
        return self._execution.is_idle

    def _wait(self, due_ns: int | None, until_idle: bool, give_up_s: float) -> None:
        wait_s = max(give_up_s - time.monotonic(), 0.0)
        if due_ns is not None:
            wait_s = min(wait_s, due_ns / 1e9)
        if until_idle:
            wait_s = min(wait_s, _LOOK_AGAIN_S)
        select.select([self._waker.fileno()], [], [], wait_s)
        self._waker.take()
