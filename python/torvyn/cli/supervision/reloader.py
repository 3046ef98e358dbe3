"""Brings a running flow up to date with its files: links it anew, and swaps what has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torvyn.errors import FlowError
from torvyn.reactor.swap.plan_difference import PlanDifference, code_digests, compare

if TYPE_CHECKING:
    from torvyn.link.plan import Plan
    from torvyn.reactor import Flow

Link = Callable[[], "Plan"]


class Reloader:
    """Made when the flow starts, because it remembers the code that was loaded then."""

    def __init__(self, flow: Flow, link: Link) -> None:
        self._flow = flow
        self._link = link
        self._code = code_digests(flow.plan)
        self._lock = threading.Lock()

    def difference(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            return self._compare()[0].to_dict()

    def reload(self, request: dict[str, Any]) -> dict[str, Any]:
        """Swaps all nodes that have changed, in the order of the flow. `token`: the difference that
        a person has seen."""
        with self._lock:
            difference, code = self._compare()
            if request.get("token") not in (None, difference.token):
                raise FlowError(
                    "cli.reload-failed",
                    "the files have changed since the difference was shown",
                    hint="run `torvyn reload` again",
                )
            difference.refuse_graph(self._flow.name)
            return self._swap(difference, code, bool(request.get("discard_state")))

    def _compare(self) -> tuple[PlanDifference, dict[str, str]]:
        new = self._link()
        code = code_digests(new)
        return compare(self._flow.running_plan, new, self._code, code), code

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
