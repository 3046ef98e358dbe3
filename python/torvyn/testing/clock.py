"""A clock that only moves when a test moves it, and then wakes the flows that use it."""

from __future__ import annotations

from torvyn._native import ManualClock


class Clock(ManualClock):
    """A manual clock: `torvyn.Flow(..., clock=clock)`, `run_flow(..., clock=clock)`.

    Deadlines, retries, drains and `PENDING.after` of inline sources use it. Stages on threads and
    event loops use real time.
    """

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def __call__(self) -> float:
        """The time in seconds, for components that take a clock such as `time.monotonic`."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Moves the time forward and wakes the flows."""
        if seconds < 0:
            raise ValueError("cannot move the time backwards")
        self.advance_ns(round(seconds * 1e9))
