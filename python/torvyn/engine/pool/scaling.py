"""Scaling by queue time: when a pool needs one member more or one less. Pure.

One more as soon as a request has waited too long for a member; one less when the others could have
done the work of a long time with half of their places. The two thresholds are far apart, and every
change is followed by a pause, so that a pool does not swing.
"""

from __future__ import annotations

from typing import Final

from torvyn.engine.pool.limits import Limits

_PAUSE_S: Final = 5.0
"""The shortest time from a change to the next one."""
_LOW_SHARE: Final = 0.5


class Scaling:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._quiet_since_s: float | None = None
        self._changed_s = float("-inf")

    def decide(self, now_s: float, members: int, in_flight: int, wait_s: float) -> int:
        """1: one more member; -1: one less; 0: as many as there are."""
        limits = self._limits
        if members < limits.min_members:
            return 1
        places = (members - 1) * limits.max_in_flight
        is_quiet = not wait_s and in_flight <= places * _LOW_SHARE
        if not is_quiet:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        if now_s - self._changed_s < _PAUSE_S:
            return 0
        if wait_s >= limits.scale_up_wait_s and members < limits.max_members:
            return self._change(now_s, 1)
        quiet_s = 0.0 if self._quiet_since_s is None else now_s - self._quiet_since_s
        if is_quiet and quiet_s >= limits.scale_down_after_s and members > limits.min_members:
            return self._change(now_s, -1)
        return 0

    def _change(self, now_s: float, by: int) -> int:
        self._changed_s, self._quiet_since_s = now_s, None
        return by
