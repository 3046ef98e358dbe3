"""Lets `torvyn deploy run` decide when a server starts, and which generation it serves.

Answers that have begun finish on the version that began them. A change that a running server cannot
take over is refused; then another process takes the port over, and this one ends its streams.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.supervision import wait_for_start
from torvyn.errors import TorvynError

if TYPE_CHECKING:
    from torvyn._cli.target import ServedProject
    from torvyn._link.plan import Plan, TelemetryPlan
    from torvyn.transport.application import Application

_STOP_MARGIN_S: Final = 5.0


@contextmanager
def supervised(
    application: Application, project: ServedProject | None, telemetry: TelemetryPlan | None
) -> Iterator[None]:
    """Waits until the server may start; answers requests for another generation meanwhile."""
    settings = application.settings
    # Only one process can have the file of stored sessions open.
    can_overlap = settings.session_store is None
    stop_s = settings.shutdown_grace_s + _STOP_MARGIN_S
    if project is None or not wait_for_start(stop_s, can_overlap=can_overlap):
        yield
        return
    from torvyn._cli.flow_socket import ControlSocket

    exchange = ServedExchange(application, project, telemetry)
    with ControlSocket({"exchange": exchange.exchange, "status": exchange.status}):
        yield


class ServedExchange:
    def __init__(
        self, application: Application, project: ServedProject, telemetry: TelemetryPlan | None
    ) -> None:
        self._application = application
        self._project = project
        self._telemetry = telemetry

    def exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """`project`: the folder of the new generation. The answer has `refused`, with the reason,
        if the process must be exchanged."""
        from torvyn._deploy.exchange import ProjectChange, other_wheels

        folder, application = Path(request["project"]).resolve(), self._application
        change = ProjectChange(self._project.folder, folder)
        if change.wheels:
            return {"refused": other_wheels(change.wheels)}
        project = self._project.moved(folder, bool(request.get("is_trusted")))
        try:
            plans = self._linked(project)
            application.adopt_flows(plans)
        except TorvynError as error:
            return {"refused": error.message}
        self._project, application.link_flows = project, project.plans
        changes = {f"flow {name}": ["version"] for name in plans}
        return {
            "way": "swap",
            "changes": changes,
            "graph": [],
            "pause_ms": 0.0,
            "folders": [str(folder)],
        }

    def _linked(self, project: ServedProject) -> dict[str, Plan]:
        """The plans to serve; raises if the settings of the server have changed."""
        from torvyn._link.defaults import telemetry_plan
        from torvyn.errors import FlowError
        from torvyn.serve import ServerSettings

        linker = project.linker()
        plans, written = project.plans(linker), project.written_folder(linker)
        settings = self._application.settings
        secrets = frozenset(linker.problems.secrets)
        new = ServerSettings.of(linker.settings, written, secrets=settings.secrets)
        if new != settings or telemetry_plan(linker.settings, written) != self._telemetry:
            raise FlowError("swap.unfit", "`[serve]` or `[telemetry]` has changed")
        if not secrets <= settings.secrets:
            raise FlowError("swap.unfit", "it has other secrets, which errors would show")
        return plans

    def status(self, request: dict[str, Any]) -> dict[str, Any]:
        """As the status of a flow, for the trial of a generation and for reports."""
        flows = self._application.metrics.flows
        nodes = {}
        for name, metrics in flows.items():
            errors = sum(metrics.errors.values())
            nodes[name] = {"received": metrics.answers.total() + errors, "errors": errors}
        totals = {key: sum(node[key] for node in nodes.values()) for key in ("received", "errors")}
        statistics = {"nodes": nodes, "produced": totals["received"], "errors": totals["errors"]}
        is_busy = bool(self._application.running.calls)
        health = {"state": "moving" if is_busy else "idle"}
        return {"pid": os.getpid(), "health": health, "statistics": statistics}
