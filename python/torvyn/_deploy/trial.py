"""Is a new generation healthy? The rules, without I/O.

It must stay up for the whole period, and each of its flows must move or have an idle source. What
stands still at the end of the period prolongs it until it moves, or has stood still for too long. A
network that is away is no reason to go back: the old generation would not bring it back. Errors
count if a flow has clearly more of them than before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Status = Mapping[str, Any]
Statuses = Sequence[Status]
"""Of the flows of a process."""

UNHEALTHY: Final = ("stalled", "silent")
_LEAST_STALL_S: Final = 5.0
"""A busy machine may need that long for an element, however short the period is."""
_FEW_ERRORS: Final = 5
_MORE_THAN_BEFORE: Final = 2.0
_TOLERATED_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Calls of components, and those that failed."""

    received: int = 0
    errors: int = 0

    @classmethod
    def of(cls, status: Status) -> ErrorCount:
        nodes = _table(_table(status, "statistics"), "nodes").values()
        received = sum(_count(node, "received") for node in nodes)
        return cls(received, sum(_count(node, "errors") for node in nodes))

    def since(self, earlier: ErrorCount) -> ErrorCount:
        """What was counted after that."""
        return ErrorCount(self.received - earlier.received, self.errors - earlier.errors)

    @property
    def share(self) -> float:
        return self.errors / max(self.received, 1)

    def is_worse_than(self, before: ErrorCount) -> bool:
        """A few errors are no evidence, nor is a share that is a little larger."""
        allowed = _MORE_THAN_BEFORE * before.share + _TOLERATED_SHARE
        return self.errors > _FEW_ERRORS and self.share > allowed


class Trial:
    """One period of observation."""

    def __init__(
        self,
        period_s: float,
        stall_s: float,
        before: Statuses,
        first: Statuses = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stall_s`: how long a flow may stand still that is not on trial. `before`: of the old
        generation. `first`: at the beginning, if the same process goes on counting."""
        self.is_standing_still = False
        """Whether the last check found a flow that does not move."""
        self._clock: Final = clock
        self._period_s: Final = period_s
        self._began_s: Final = clock()
        self._unanswered_s: Final = 2 * stall_s
        self._stall_s: Final = min(stall_s, max(period_s / 2, _LEAST_STALL_S))
        self._before: Final = _by_flow(before)
        self._first: Final = _by_flow(first)

    def problem(self, statuses: Statuses, is_writable: bool) -> str | None:
        """Why the generation fails its trial; None if it does not, as far as is known."""
        if not is_writable:
            return "its data folder cannot be written to"
        self.is_standing_still = any(map(self._stands_still, statuses))
        for name, status in _by_flow(statuses).items():
            if (problem := self._problem_of(name, status)) is not None:
                return f"flow `{name}`: {problem}" if name else problem
        return None

    def _problem_of(self, name: str, status: Status) -> str | None:
        before, first = self._before.get(name, {}), self._first.get(name, {})
        health, returned = _table(status, "health"), _table(status, "returned")
        if health.get("state") in UNHEALTHY:
            return f"it is {health['state']}: {health.get('reason', '')}"
        if self._stands_still(status):
            node, held_s = health.get("node"), self._held_s(status)
            return f"node `{node}` has moved no element for {held_s:.0f} s"
        if returned and returned != _table(first, "returned"):
            return f"node `{returned.get('node')}` failed: {returned.get('error')}"
        # Flow by flow: a busy one must not hide that all calls of another fail.
        count, earlier = ErrorCount.of(status).since(ErrorCount.of(first)), ErrorCount.of(before)
        if count.is_worse_than(earlier):
            return (
                f"{count.errors} of {count.received} calls failed; "
                f"before, {earlier.errors} of {earlier.received} did"
            )
        return None

    def is_over(self, statuses: Statuses) -> bool:
        """Whether the period is over, and what stood still at its end has moved since. A process
        that does not answer is left to its watchdog."""
        held_s = max(map(self._held_s, statuses), default=self._unanswered_s)
        return self._clock() - self._began_s - self._period_s >= held_s

    def _stands_still(self, status: Status) -> bool:
        is_unhealthy = _table(status, "health").get("state") in UNHEALTHY
        return is_unhealthy or self._held_s(status) >= self._stall_s

    def _held_s(self, status: Status) -> float:
        """For how long a node has had elements in this trial, and moved none."""
        held_s = _table(status, "health").get("held_s", 0.0)
        return min(held_s, self._clock() - self._began_s) if isinstance(held_s, float) else 0.0


def _by_flow(statuses: Statuses) -> dict[str, Status]:
    """A server has one status, without a name."""
    return {str(status.get("flow", "")): status for status in statuses}


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _count(node: Any, key: str) -> int:
    count = node.get(key) if isinstance(node, Mapping) else None
    return count if isinstance(count, int) else 0
