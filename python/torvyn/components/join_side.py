"""One input of a join: the elements that wait for a partner, by event time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Final

_NEVER_NS: Final = 2**63
_ELEMENT_BYTES: Final = 200


class Waiting:
    """An element that waits; `text` is its JSON."""

    __slots__ = ("has_ended", "index", "is_matched", "text", "time_ns")

    def __init__(self, time_ns: int, text: str, index: int, is_matched: bool = False) -> None:
        self.time_ns = time_ns
        self.text = text
        self.index = index
        """How many elements the join had taken before it."""
        self.is_matched = is_matched
        self.has_ended = False
        """It waits no longer."""


class JoinSide:
    def __init__(self, state: Any = None) -> None:
        self.reset()
        if state is not None:
            self.newest_ns = state["newest"]
            for time_ns, text, is_matched in state["waiting"]:
                self._insert(Waiting(time_ns, text, 0, is_matched))

    def reset(self) -> None:
        self.newest_ns = -_NEVER_NS
        """The newest event time of this input."""
        self.held_bytes = 0
        self._times: list[int] = []
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        self.newest_ns = max(self.newest_ns, waiting.time_ns)
        self._insert(waiting)

    def _insert(self, waiting: Waiting) -> None:
        position = bisect_right(self._times, waiting.time_ns)
        self._times.insert(position, waiting.time_ns)
        self._waiting.insert(position, waiting)
        self.held_bytes += _ELEMENT_BYTES + len(waiting.text)

    def near(self, time_ns: int, within_ns: int) -> list[Waiting]:
        """The elements at most so far away in time."""
        first = bisect_left(self._times, time_ns - within_ns)
        return self._waiting[first : bisect_right(self._times, time_ns + within_ns)]

    def take_before(self, time_ns: int) -> list[Waiting]:
        return self._take(bisect_left(self._times, time_ns))

    def take_oldest(self) -> Waiting:
        return self._take(1)[0]

    def take_all(self) -> list[Waiting]:
        return self._take(len(self._waiting))

    def _take(self, count: int) -> list[Waiting]:
        if not count:
            return []
        taken = self._waiting[:count]
        del self._waiting[:count], self._times[:count]
        for waiting in taken:
            waiting.has_ended = True
            self.held_bytes -= _ELEMENT_BYTES + len(waiting.text)
        return taken

    def state(self) -> Any:
        waiting = [(one.time_ns, one.text, one.is_matched) for one in self._waiting]
        return {"newest": self.newest_ns, "waiting": waiting}
