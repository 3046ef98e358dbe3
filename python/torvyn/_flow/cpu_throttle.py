"""Keeps a flow, and single nodes of it, within their shares of a CPU (`cpu_share`).

A flow uses CPU time for the elements that its sources send. So when the flow or one of its nodes
has used more than its share, the sources are asked again only after the time that makes up for it.
Nothing inside the flow is interrupted or dropped, and a flow without shares pays nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final

from torvyn._contract.signals import PENDING
from torvyn._link.plan import Plan

CHECK_S: Final = 0.01
BURST_S: Final = 0.1
"""A flow that was idle may use what it has saved in this time."""
_SHORTEST_S: Final = 1e-3
_LONGEST_S: Final = 1.0
"""The longest delay at once; a debt that is larger delays the source again."""

FLOW: Final = ""
"""The name under which the flow's own share is kept."""


class CpuThrottle:
    """A bucket of CPU time per share; a delay while one of them is in debt."""

    def __init__(
        self,
        shares: Mapping[str, float],
        read_cpu_ns: Callable[[], Mapping[str, int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.delayed_s = 0.0
        """For how long the sources were delayed, in total."""
        self._shares = shares
        self._read_cpu_ns = read_cpu_ns
        self._clock = clock
        self._checked_s = clock()
        self._used_s: dict[str, float] = {}
        self._saved_s = dict.fromkeys(shares, 0.0)
        # Sources of one flow may be on several threads.
        self._lock = threading.Lock()

    def delay_s(self) -> float:
        """How long the source must wait; 0 if it may be asked now."""
        now_s = self._clock()
        if now_s - self._checked_s < CHECK_S:
            return 0.0
        with self._lock:
            passed_s, self._checked_s = now_s - self._checked_s, now_s
            delay_s = min(self._debt_s(passed_s), _LONGEST_S)
            if delay_s < _SHORTEST_S:
                return 0.0
            # The check after the delay sees that time as passed.
            self.delayed_s += delay_s
            return delay_s

    def _debt_s(self, passed_s: float) -> float:
        """How long it takes until every share has made up for what was used."""
        used_s = self._read_used_s()
        longest_s = 0.0
        for name, share in self._shares.items():
            spent_s = used_s[name] - self._used_s.get(name, 0.0)
            saved_s = min(self._saved_s[name] + passed_s * share, BURST_S * share) - spent_s
            self._saved_s[name] = saved_s
            longest_s = max(longest_s, -saved_s / share)
        self._used_s = used_s
        return longest_s

    def _read_used_s(self) -> dict[str, float]:
        by_node = self._read_cpu_ns()
        total_ns = sum(by_node.values())
        return {
            name: (total_ns if name == FLOW else by_node.get(name, 0)) / 1e9
            for name in self._shares
        }

    def throttle_pull(self, pull: Callable[..., Any]) -> Callable[..., Any]:
        """A `pull` or `pull_batch` that answers PENDING while the flow is in debt."""

        def throttled(*most: int) -> Any:
            delay_s = self.delay_s()
            return PENDING.after(delay_s) if delay_s else pull(*most)

        return throttled

    def throttle_items(self, items: Iterator[Any]) -> Generator[Any, None, Any]:
        """The items of a source that is iterated, with PENDING in between."""
        try:
            while True:
                while delay_s := self.delay_s():
                    yield PENDING.after(delay_s)
                try:
                    item = next(items)
                except StopIteration as stop:
                    return stop.value
                yield item
        finally:
            if hasattr(items, "close"):
                items.close()


def shares_of(plan: Plan) -> dict[str, float]:
    """The shares of the flow and its nodes, by name; empty if there are none."""
    shares = {node.name: node.cpu_share for node in plan.nodes if node.cpu_share is not None}
    return shares if plan.cpu_share is None else {**shares, FLOW: plan.cpu_share}
