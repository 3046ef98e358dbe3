"""Tells systemd how the flows of a process do: ready, working, stopping.

The watchdog is fed while every flow is healthy (`torvyn.reactor.health`), not while the process is
alive: a process that collects nothing is restarted. An idle source is healthy, and so is a
component that reports a lost connection, because a restart does not bring the network back.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from torvyn._io.supervision import is_notified, notify, watchdog_interval_s

if TYPE_CHECKING:
    from torvyn._link.plan import Plan
    from torvyn.reactor import Flow
    from torvyn.reactor.health import FlowHealth, HealthCheck

logger = logging.getLogger("torvyn.cli")

_STALL_S: Final = 60.0
"""Without a watchdog, for `torvyn top`."""


class Supervisor:
    """The threads that run the flows call `started`; the one that waits for their ends calls the
    other methods."""

    def __init__(self, expected: int = 1) -> None:
        """`expected`: how many flows the process runs."""
        self.due_s: float | None = None
        """When to call `tick`, as a time of `time.monotonic`."""
        self._lock = threading.Lock()
        self._running: dict[Flow, HealthCheck] = {}
        self._awaited = expected
        self._is_ready = self._is_stopping = False
        self._interval_s = watchdog_interval_s()
        self._failed: set[Flow] = set()

    def started(self, flow: Flow, check: HealthCheck) -> None:
        """All components of the flow are initialized."""
        with self._lock:
            self._running[flow] = check
            self._awaited -= 1
            self._report_ready()

    def ended(self, flow: Flow) -> None:
        """The flow has ended, or could not start."""
        with self._lock:
            if self._running.pop(flow, None) is None:
                self._awaited -= 1
            self._report_ready()

    def _report_ready(self) -> None:
        """Once all flows run, or have failed to."""
        if self._awaited > 0 or self._is_ready or not self._running or self._is_stopping:
            return
        self._is_ready = True
        notify("READY=1", f"STATUS=running {self._names()}")
        if self._interval_s is not None:
            self.due_s = time.monotonic() + self._interval_s

    def _names(self) -> str:
        names = sorted(flow.name for flow in self._running)
        return f"flow {names[0]}" if len(names) == 1 else f"{len(names)} flows"

    def tick(self) -> None:
        """Feeds the watchdog, or lets it end the process if a flow does not work."""
        assert self._interval_s is not None
        self.due_s = time.monotonic() + self._interval_s
        with self._lock:
            running = dict(self._running)
        found = [(flow, flow.statistics, check) for flow, check in running.items()]
        healths = [(flow, check.check(statistics)) for flow, statistics, check in found]
        sick = [(flow, health) for flow, health in healths if not health.is_healthy]
        if healths and not sick:
            produced = sum(statistics.produced for _, statistics, _ in found)
            emitted = sum(statistics.emitted for _, statistics, _ in found)
            state = ", ".join(dict.fromkeys(health.state for _, health in healths))
            what = state if len(found) == 1 else f"{len(found)} flows, {state}"
            reasons = "".join(f", {health.reason}" for _, health in healths if health.reason)
            notify("WATCHDOG=1", f"STATUS={what}: {produced} produced, {emitted} emitted{reasons}")
        for flow, health in sick:
            if flow not in self._failed:
                self._failed.add(flow)
                self._report(flow, health)
        if sick:
            # Last, because systemd may end the process at once.
            health = sick[0][1]
            notify("WATCHDOG=trigger", f"STATUS={health.state}: {health.reason}")

    def stopping(self) -> None:
        with self._lock:
            self.due_s, self._is_stopping = None, True
            notify("STOPPING=1", f"STATUS=draining {self._names()}")

    def _report(self, flow: Flow, health: FlowHealth) -> None:
        execution = flow._execution
        stuck = None if execution is None else execution.find_stuck_call()
        stack = "" if stuck is None or not stuck.stack else f"; {stuck.description}:\n{stuck.stack}"
        logger.error(
            "flow `%s` is %s: %s; the watchdog of systemd ends the process%s",
            flow.name,
            health.state,
            health.reason,
            stack,
            extra={"event": f"flow.{health.state}", "flow": flow.name, "node": health.node},
        )


def make_health_check(plan: Plan) -> HealthCheck:
    """A flow has stalled when it stands still for as long as the watchdog waits."""
    from torvyn.reactor.health import HealthCheck

    interval_s = watchdog_interval_s()
    stall_s = _STALL_S if interval_s is None else 2 * interval_s
    return HealthCheck(stall_s, plan.runtime.max_silence_s)


def make_supervisor(expected: int = 1) -> Supervisor | None:
    """The supervisor of a process that systemd has started; None if it has not."""
    return Supervisor(expected) if is_notified() else None
