"""A clock that only moves when a test moves it; the flows that live by it wake up then."""

from __future__ import annotations

from torvyn._native import ManualClock


class Clock(ManualClock):
    """Time by hand: `torvyn.Flow(..., clock=clock)`, `run_flow(..., clock=clock)`.

    Deadlines, retries, drains and `PENDING.after` of inline sources follow it. What a stage on a
    thread or a loop of its own waits for is real time.
    """

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def __call__(self) -> float:
        """The time in seconds, for components that take a clock such as `time.monotonic`."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Moves the hand and wakes the flows. A flow that nobody drives goes on when somebody
        does."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self.advance_ns(round(seconds * 1e9))
