"""A clock that only moves when a test moves it, and then wakes the flows that use it."""

from __future__ import annotations

from torvyn._native import ManualClock


class Clock(ManualClock):
    """A manual clock: `torvyn.Flow(..., clock=clock)`, `run_flow(..., clock=clock)`.

    Deadlines, retries, drains, timers and `PENDING.after` of inline sources use it. Stages on
    threads and event loops use real time. The wall clock of its flows starts at the beginning of
    2026.
    """

    _wall_offset_ns = 1_767_225_600 * 1_000_000_000

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def __call__(self) -> float:
        """The time in seconds, for components that take a clock such as `time.monotonic`."""
        return self.now_s

    def wall_ns(self) -> int:
        """The wall clock of the flows, as Unix nanoseconds."""
        return self._wall_offset_ns + self.now_ns

    def set_wall(self, seconds: float) -> None:
        """Sets the wall clock forward or, with a negative number, back, as a person or NTP does.
        The flow's own time does not change."""
        self._wall_offset_ns += round(seconds * 1e9)

    def advance(self, seconds: float) -> None:
        """Moves the time forward and wakes the flows."""
        if seconds < 0:
            raise ValueError("cannot move the time backwards")
        self.advance_ns(round(seconds * 1e9))
