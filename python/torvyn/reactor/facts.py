"""The facts of one run: statistics while it runs; the last ones, and the trace, when it is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from torvyn._native import NativeFlow
from torvyn.link.plan import Plan
from torvyn.reactor import statistics
from torvyn.reactor.blueprint import Wiring
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.recording import Recording

Call = tuple[str, str, int, int, int, int, int]
"""Node, outcome, made, bytes the node had copied by then, sequence, start and duration in
nanoseconds."""


class Facts:
    def __init__(self, plan: Plan, trace_limit: int) -> None:
        self.trace: tuple[list[Call], int] = ([], 0)
        self.over_s: float | None = None
        """When the last turn had run."""
        self.final: statistics.Statistics | None = None
        self._plan = plan
        self._trace_limit = trace_limit
        self._recording = Recording(trace_limit)
        self._started_s = time.monotonic()

    def record(self, runners: Sequence[Runner]) -> None:
        """The calls of stages outside the turns, for a traced flow: nothing else sees them."""
        for runner in runners if self._trace_limit else ():
            if runner.node.run != "inline":
                self._recording.watch(runner.node.name, runner.node.role, runner.component)

    def start(self, native: NativeFlow) -> None:
        self._started_s = time.monotonic()
        if self._trace_limit:
            native.trace(self._trace_limit)

    def now(
        self, native: NativeFlow, runners: Sequence[Runner], wiring: Wiring
    ) -> statistics.Statistics:
        guests = {r.node.name: r.guest for r in runners if r.guest is not None}
        return statistics.from_native(
            self._plan,
            wiring,
            native.statistics(),
            (self.over_s or time.monotonic()) - self._started_s,
            {name: guest.health for name, guest in guests.items()},
            {name: guest.denied for name, guest in guests.items()},
        )

    def conclude(
        self, native: NativeFlow, runners: Sequence[Runner], wiring: Wiring, state: str | None
    ) -> None:
        """Once the components are torn down. `state`: the run was abandoned in it."""
        # Counts what thread and async stages answered after the last turn.
        settle = getattr(native, "settle", None)
        if settle is not None:
            settle()
        final = self.now(native, runners, wiring)
        self.final = final if state is None else replace(final, state=state)
        if self._trace_limit:
            events, missed = native.take_trace()
            names = [node.name for node in self._plan.nodes]
            calls: list[Call] = [(names[event[0]], *event[1:]) for event in events]
            calls = sorted(self._recording.calls + calls, key=lambda call: call[5])
            self.trace = calls, missed + self._recording.missed
