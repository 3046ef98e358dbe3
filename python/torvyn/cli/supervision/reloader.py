"""Brings a running flow up to date with its files: links it anew, and swaps what has changed.

If the graph of a durable flow has changed, its state is saved at rest, and a new flow continues
there in the same process. If that one cannot start, the old one does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from torvyn.errors import FlowError, TorvynError
from torvyn.reactor.swap.plan_difference import PlanDifference, code_digests, compare

if TYPE_CHECKING:
    from torvyn.link.plan import Plan
    from torvyn.reactor import Flow

Link = Callable[[], "Plan"]

_POLL_S: Final = 0.002
_START_S: Final = 90.0
"""How long a new flow may take to start."""


class Reloader:
    """Made when the flow starts, because it remembers the code that was loaded then."""

    def __init__(self, flow: Flow, link: Link) -> None:
        self._flow = flow
        self._link = link
        self._code = code_digests(flow.plan)
        self._lock = threading.Lock()
        self._successor: Plan | None = None
        self._fallback: Plan | None = None
        self._start_error: BaseException | None = None

    def difference(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            return self._compare()[0].to_dict()

    def reload(self, request: dict[str, Any]) -> dict[str, Any]:
        """Swaps all nodes that have changed, in the order of the flow. `token`: the difference that
        a person has seen."""
        with self._lock:
            difference, plan = self._compare()
            if request.get("token") not in (None, difference.token):
                raise FlowError(
                    "cli.reload-failed",
                    "the files have changed since the difference was shown",
                    hint="run `torvyn reload` again",
                )
            if difference.graph:
                difference.refuse_graph(self._flow.name)
                return self._restart(plan)
            return self._swap(difference, code_digests(plan), bool(request.get("discard_state")))

    def _compare(self) -> tuple[PlanDifference, Plan]:
        new = self._link()
        return compare(self._flow.running_plan, new, self._code, code_digests(new)), new

    def _swap(
        self, difference: PlanDifference, code: dict[str, str], discard_state: bool
    ) -> dict[str, Any]:
        for change in difference.nodes:
            if change.refusal is not None:
                raise change.refusal
        reports: list[dict[str, Any]] = []
        for change in difference.nodes:
            name = change.node.name
            try:
                report = self._flow.swap_node(change.node, discard_state=discard_state)
            except FlowError as error:
                errors = [each.to_dict() for each in error.diagnostics]
                return {"swaps": reports, "errors": errors}
            if name in code:
                self._code[name] = code[name]
            reports.append(report.to_dict())
        return {"swaps": reports}

    # A new graph

    def _restart(self, plan: Plan) -> dict[str, Any]:
        """Saves the state of the flow and has `take_successor` start the new one."""
        old, began_s = self._flow, time.monotonic()
        self._successor, self._fallback, self._start_error = plan, _with_running_code(old), None
        old.drain()
        while self._flow is old or not _has_started(self._flow):
            if time.monotonic() - began_s > _START_S + plan.runtime.drain_timeout_s:
                raise FlowError("cli.reload-failed", f"flow `{plan.name}` did not start again")
            time.sleep(_POLL_S)
        if (error := self._start_error) is not None:
            found = error.diagnostics if isinstance(error, TorvynError) else ()
            errors = [each.to_dict() for each in found]
            return {"swaps": [], "errors": errors or [_unknown(error)]}
        self._code = code_digests(plan)
        return {"swaps": [], "restarted_ms": (time.monotonic() - began_s) * 1e3}

    def take_successor(self) -> Plan | None:
        """The plan of the flow that follows one that has ended; None if none does."""
        plan, self._successor = self._successor, None
        if plan is not None:
            return plan
        if self._fallback is None or _has_started(self._flow) or self._start_error is not None:
            return None
        self._start_error = self._flow.error or RuntimeError("the flow did not start")
        return self._fallback

    def follow(self, flow: Flow) -> None:
        """This flow runs now."""
        self._flow = flow


def _has_started(flow: Flow) -> bool:
    """Whether its components are initialized; a flow that cannot start never has."""
    execution = flow._execution
    return execution is not None and execution.native is not None


def _with_running_code(flow: Flow) -> Plan:
    """The plan that runs, with new components of the classes that run: their files have changed."""
    plan, execution = flow.running_plan, flow._execution
    runners = [] if execution is None else execution.runners
    made = {
        runner.node.name: type(runner.component)()
        for runner in runners
        if runner.node.component.kind in ("project", "wasm") and runner.node.key is None
    }
    nodes = [
        replace(node, component=replace(node.component, instance=made.get(node.name)))
        for node in plan.nodes
    ]
    return replace(plan, nodes=tuple(nodes))


def _unknown(error: BaseException) -> dict[str, str]:
    return {"code": "cli.reload-failed", "message": f"{type(error).__name__}: {error}"}
