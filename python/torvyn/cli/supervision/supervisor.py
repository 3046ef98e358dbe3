"""Tells systemd how a flow does: ready, working, stopping.

The watchdog is fed while the flow is healthy (`torvyn.reactor.health`), not while the process is
alive: a process that collects nothing is restarted. An idle source is healthy, and so is a
component that reports a lost connection, because a restart does not bring the network back.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from torvyn.machine.systemd_notify import is_notified, notify, watchdog_interval_s

if TYPE_CHECKING:
    from torvyn.link.plan import Plan
    from torvyn.reactor import Flow
    from torvyn.reactor.health import FlowHealth, HealthCheck

logger = logging.getLogger("torvyn.cli")

_STALL_S: Final = 60.0
"""Without a watchdog, for `torvyn top`."""


class Supervisor:
    """The thread that runs the flow calls `started`; the one that waits for its end calls the
    other methods."""

    def __init__(self, flow: Flow, check: HealthCheck) -> None:
        self.due_s: float | None = None
        """When to call `tick`, as a time of `time.monotonic`."""
        self._flow = flow
        self._check = check
        self._interval_s = watchdog_interval_s()
        self._has_failed = False

    def started(self) -> None:
        """All components are initialized."""
        notify("READY=1", f"STATUS=running flow {self._flow.name}")
        if self._interval_s is not None:
            self.due_s = time.monotonic() + self._interval_s

    def tick(self) -> None:
        """Feeds the watchdog, or lets it end the process if the flow does not work."""
        assert self._interval_s is not None
        self.due_s = time.monotonic() + self._interval_s
        statistics = self._flow.statistics
        health = self._check.check(statistics)
        if health.is_healthy:
            reason = f", {health.reason}" if health.reason else ""
            counts = f"{statistics.produced} produced, {statistics.emitted} emitted"
            notify("WATCHDOG=1", f"STATUS={health.state}: {counts}{reason}")
            return
        if not self._has_failed:
            self._has_failed = True
            self._report(health)
        # Last, because systemd may end the process at once.
        notify("WATCHDOG=trigger", f"STATUS={health.state}: {health.reason}")

    def stopping(self) -> None:
        self.due_s = None
        notify("STOPPING=1", f"STATUS=draining flow {self._flow.name}")

    def _report(self, health: FlowHealth) -> None:
        execution = self._flow._execution
        stuck = None if execution is None else execution.find_stuck_call()
        stack = "" if stuck is None or not stuck.stack else f"; {stuck.description}:\n{stuck.stack}"
        logger.error(
            "flow `%s` is %s: %s; the watchdog of systemd ends the process%s",
            self._flow.name,
            health.state,
            health.reason,
            stack,
            extra={"event": f"flow.{health.state}", "flow": self._flow.name, "node": health.node},
        )


def make_health_check(plan: Plan) -> HealthCheck:
    """A flow has stalled when it stands still for as long as the watchdog waits."""
    from torvyn.reactor.health import HealthCheck

    interval_s = watchdog_interval_s()
    stall_s = _STALL_S if interval_s is None else 2 * interval_s
    return HealthCheck(stall_s, plan.runtime.max_silence_s)


def make_supervisor(flow: Flow, check: HealthCheck) -> Supervisor | None:
    """The supervisor of a flow whose process systemd has started; None if it has not."""
    return Supervisor(flow, check) if is_notified() else None
