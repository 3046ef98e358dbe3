"""Is a new generation healthy? The rules, without I/O.

It must stay up for the whole period, and its flow must move or have an idle source. A network that
is away is no reason to go back: the old generation would not bring it back. Errors count if there
are clearly more of them than before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_UNHEALTHY: Final = ("stalled", "silent")
_FEW_ERRORS: Final = 5
_MORE_THAN_BEFORE: Final = 2.0
_TOLERATED_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Calls of components, and those that failed."""

    received: int = 0
    errors: int = 0

    @classmethod
    def of(cls, status: Mapping[str, Any] | None) -> ErrorCount:
        """From the status of a flow."""
        nodes = _table(_table(status or {}, "statistics"), "nodes").values()
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
        began_s: float,
        before: ErrorCount,
        first: Mapping[str, Any] | None = None,
    ) -> None:
        """`before`: the errors of the old generation. `first`: the status at the beginning, if the
        same process goes on counting."""
        self.is_standing_still = False
        """Whether the last check found a flow that does not move."""
        self._ends_s: Final = began_s + period_s
        self._before: Final = before
        self._first: Final = ErrorCount.of(first)
        self._returned: Final = _table(first or {}, "returned")

    def problem(self, status: Mapping[str, Any] | None, is_writable: bool) -> str | None:
        """Why the generation fails its trial; None if it does not, as far as is known."""
        if not is_writable:
            return "its data folder cannot be written to"
        health = _table(status or {}, "health")
        self.is_standing_still = health.get("state") in _UNHEALTHY
        if self.is_standing_still:
            return f"its flow is {health['state']}: {health.get('reason', '')}"
        returned = _table(status or {}, "returned")
        if returned and returned != self._returned:
            return f"node `{returned.get('node')}` failed: {returned.get('error')}"
        count = ErrorCount.of(status).since(self._first)
        if count.is_worse_than(self._before):
            return (
                f"{count.errors} of {count.received} calls failed; "
                f"before, {self._before.errors} of {self._before.received} did"
            )
        return None

    def is_over(self, now_s: float) -> bool:
        return now_s >= self._ends_s


def _table(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _count(node: Any, key: str) -> int:
    count = node.get(key) if isinstance(node, Mapping) else None
    return count if isinstance(count, int) else 0
