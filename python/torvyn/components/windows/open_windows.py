"""The open windows of one key.

`add` puts a value into its windows, and `close` takes out those whose end the watermark has passed.
Times are Unix nanoseconds; fixed windows start at whole multiples of their step since 1970.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final

from torvyn.components.windows.pane import Layout, Pane

ClosedWindow = tuple[int, int, Pane]
"""Start, end and totals."""
NEVER_NS: Final = 2**63


class OpenWindows(ABC):
    """`next_end_ns` is the end of the window that closes first; `NEVER_NS` if none is open."""

    next_end_ns: int = NEVER_NS
    pane_count: int = 0

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @abstractmethod
    def add(self, time_ns: int, values: list[Any], watermark_ns: int, index: int) -> bool:
        """False if the element is late: all its windows are closed. `index` counts elements."""

    @abstractmethod
    def close(self, watermark_ns: int) -> Iterator[ClosedWindow]:
        """The windows that end at or before the watermark, in order."""

    @abstractmethod
    def panes(self) -> Iterable[Pane]: ...

    @abstractmethod
    def state(self) -> Any:
        """The open windows as JSON."""

    @abstractmethod
    def restore(self, state: Any) -> None: ...


class FixedWindows(OpenWindows):
    """Tumbling and sliding windows. Windows that overlap are made of panes that do not."""

    def __init__(self, layout: Layout, length_ns: int, step_ns: int) -> None:
        super().__init__(layout)
        self._length_ns, self._step_ns = length_ns, step_ns
        self._pane_ns = math.gcd(length_ns, step_ns)
        self._panes: dict[int, Pane] = {}
        self._closed_ns = -NEVER_NS
        """All windows that end here or before are closed."""

    def add(self, time_ns: int, values: list[Any], watermark_ns: int, index: int) -> bool:
        last_end_ns = time_ns - time_ns % self._step_ns + self._length_ns
        if last_end_ns <= watermark_ns or last_end_ns <= self._closed_ns:
            return False
        start_ns = time_ns - time_ns % self._pane_ns
        pane = self._panes.get(start_ns)
        if pane is None:
            pane = self._panes[start_ns] = self._layout.pane(first=index)
            self.pane_count += 1
            closed_ns = max(self._closed_ns, watermark_ns)
            self.next_end_ns = min(self.next_end_ns, self._first_end(start_ns, closed_ns))
        pane.add(values, time_ns)
        return True

    def _first_end(self, pane_ns: int, after_ns: int) -> int:
        """The end of the first window that holds the pane and ends after a time."""
        step_ns = self._step_ns
        # The first window starts at the first step for which the pane is not past its end.
        earliest_ns = max(pane_ns + self._pane_ns - self._length_ns, after_ns + 1 - self._length_ns)
        return -(-earliest_ns // step_ns) * step_ns + self._length_ns

    def close(self, watermark_ns: int) -> Iterator[ClosedWindow]:
        while self.next_end_ns <= watermark_ns and self._panes:
            end_ns = self.next_end_ns
            yield end_ns - self._length_ns, end_ns, self._take(end_ns)
            self._closed_ns = end_ns
            earliest_ns = min(self._panes, default=None)
            self.next_end_ns = (
                NEVER_NS if earliest_ns is None else self._first_end(earliest_ns, end_ns)
            )

    def _take(self, end_ns: int) -> Pane:
        """The totals of the window that ends here. Panes that no later window needs are removed."""
        start_ns = end_ns - self._length_ns
        if self._step_ns == self._length_ns:
            self.pane_count -= 1
            return self._panes.pop(start_ns)
        window = self._layout.pane()
        for pane_ns in sorted(pane_ns for pane_ns in self._panes if pane_ns < end_ns):
            window.merge(self._panes[pane_ns])
            if pane_ns < start_ns + self._step_ns:
                del self._panes[pane_ns]
                self.pane_count -= 1
        return window

    def panes(self) -> Iterable[Pane]:
        return self._panes.values()

    def state(self) -> Any:
        panes = [(start_ns, pane.state()) for start_ns, pane in self._panes.items()]
        return {"closed": self._closed_ns, "next": self.next_end_ns, "panes": panes}

    def restore(self, state: Any) -> None:
        self._closed_ns, self.next_end_ns = state["closed"], state["next"]
        self._panes = {start_ns: self._layout.pane(pane) for start_ns, pane in state["panes"]}
        self.pane_count = len(self._panes)


class SessionWindows(OpenWindows):
    """Windows of elements that follow one another within `gap_ns`, from the first to the last."""

    def __init__(self, layout: Layout, gap_ns: int) -> None:
        super().__init__(layout)
        self._gap_ns = gap_ns
        self._sessions: list[list[Any]] = []
        """First time, last time and pane of each, in order."""

    def add(self, time_ns: int, values: list[Any], watermark_ns: int, index: int) -> bool:
        gap_ns, sessions = self._gap_ns, self._sessions
        near = [s for s in sessions if s[0] - gap_ns <= time_ns <= s[1] + gap_ns]
        if not near:
            if time_ns + gap_ns < watermark_ns:
                return False
            near = [[time_ns, time_ns, self._layout.pane(first=index)]]
            sessions.append(near[0])
            sessions.sort(key=_start)
        own = near[0]
        own[0], own[1] = min(own[0], time_ns), max(own[1], time_ns)
        own[2].add(values, time_ns)
        for other in near[1:]:
            # The element closes the gap between two sessions.
            own[1] = max(own[1], other[1])
            own[2].merge(other[2])
            sessions.remove(other)
        self._count()
        return True

    def _count(self) -> None:
        self.pane_count = len(self._sessions)
        ends = (session[1] for session in self._sessions)
        # An element exactly one gap later still belongs to the session.
        self.next_end_ns = min(ends, default=NEVER_NS - self._gap_ns - 1) + self._gap_ns + 1

    def close(self, watermark_ns: int) -> Iterator[ClosedWindow]:
        while self.next_end_ns <= watermark_ns and self._sessions:
            start_ns, end_ns, pane = self._sessions.pop(0)
            self._count()
            yield start_ns, end_ns, pane

    def panes(self) -> Iterable[Pane]:
        return [session[2] for session in self._sessions]

    def state(self) -> Any:
        return [(start_ns, end_ns, pane.state()) for start_ns, end_ns, pane in self._sessions]

    def restore(self, state: Any) -> None:
        self._sessions = [[start, end, self._layout.pane(pane)] for start, end, pane in state]
        self._count()


class CountWindows(OpenWindows):
    """Windows of a number of elements, in their order of arrival. Time does not close them."""

    def __init__(self, layout: Layout, size: int) -> None:
        super().__init__(layout)
        self._size = size
        self._window: list[Any] | None = None
        """First time, last time and pane."""

    def add(self, time_ns: int, values: list[Any], watermark_ns: int, index: int) -> bool:
        if self._window is None:
            self._window = [time_ns, time_ns, self._layout.pane(first=index)]
            self.pane_count = 1
        window = self._window
        window[0], window[1] = min(window[0], time_ns), max(window[1], time_ns)
        window[2].add(values, time_ns)
        if window[2].count >= self._size:
            self.next_end_ns = -NEVER_NS
        return True

    def close(self, watermark_ns: int) -> Iterator[ClosedWindow]:
        window = self._window
        if window is not None and self.next_end_ns <= watermark_ns:
            self._window, self.pane_count, self.next_end_ns = None, 0, NEVER_NS
            yield window[0], window[1], window[2]

    def panes(self) -> Iterable[Pane]:
        return () if self._window is None else (self._window[2],)

    def state(self) -> Any:
        return self._window and (*self._window[:2], self._window[2].state())

    def restore(self, state: Any) -> None:
        self._window = state and [*state[:2], self._layout.pane(state[2])]
        self.pane_count = int(self._window is not None)


def _start(session: list[Any]) -> int:
    first_ns: int = session[0]
    return first_ns
