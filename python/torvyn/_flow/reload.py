"""Brings a running flow up to date with its files: links it anew, and swaps what has changed.

If the graph of a durable flow has changed, the flow restarts from its checkpoint: its state is
saved at rest, and a new flow continues there in the same process. If that cannot start, or fails
soon, the old graph is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from torvyn._contract.enums import FlowState
from torvyn._io.files import tree_digest
from torvyn.errors import FlowError, TorvynError

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._flow.plan_difference import NodeChange, PlanDifference
    from torvyn._flow.swap import SwapKeywords
    from torvyn._link.plan import NodePlan, Plan

logger = logging.getLogger("torvyn.reactor")

Link = Callable[[], "Plan"]

_POLL_S: Final = 0.002
_START_S: Final = 90.0
"""How long a new flow may take to start."""


class Reloader:
    """Made when the flow starts, because it remembers the code that was loaded then."""

    def __init__(self, flow: Flow, link: Link) -> None:
        self.link = link
        """Links the flow anew."""
        self.lock = threading.Lock()
        """One change at a time."""
        self._flow = flow
        self._code = code_digests(flow.plan)
        self._good_code: dict[str, str] = {}
        """The code that is back if a version on trial fails, by the names of its nodes."""
        self._successor: Plan | None = None
        self._fallback: Plan | None = None
        self._start_error: BaseException | None = None
        self._graph: tuple[str, ...] = ()
        """What the restart that is under way changes, in words."""
        self._discards: frozenset[str] = frozenset()
        """The nodes whose states the successor discards."""
        self._continued: frozenset[str] = frozenset()
        """The nodes that have run in any version."""
        self._trial_until_s = 0.0
        """Until then a failure of the flow brings its old graph back."""
        self._code_before = self._code

    def difference(self, request: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            return self._compare()[0].to_dict()

    def reload(self, request: dict[str, Any]) -> dict[str, Any]:
        """Swaps all nodes that have changed, in the order of the flow. `token`: the difference that
        a person has seen."""
        with self.lock:
            difference, plan = self._compare()
            if request.get("token") not in (None, difference.token):
                raise FlowError(
                    "cli.reload-failed",
                    "the files have changed since the difference was shown",
                    hint="run `torvyn reload` again",
                )
            return self.apply(difference, plan, discard_state=bool(request.get("discard_state")))

    def verdicts(self, request: dict[str, Any]) -> dict[str, Any]:
        """What became of the nodes that were swapped; an error for each that has its old component
        back. `nodes`: their names."""
        from torvyn._flow.swap_checks import returned

        execution, verdicts, errors = self._flow._execution, {}, []
        assert execution is not None
        if execution.error is not None:
            raise FlowError("cli.reload-failed", f"the flow has failed: {execution.error}")
        for name in request["nodes"]:
            verdict, left_s = execution.swaps.swapper.verdict(name)
            verdicts[name] = {"verdict": verdict, "trial_left_s": round(left_s, 1)}
            if verdict == "returned":
                report = [each for each in self._flow.swaps if each.node == name][-1]
                errors += [each.to_dict() for each in returned(name, report.error).diagnostics]
        return {"swaps": [], "verdicts": verdicts, "errors": errors}

    @property
    def running_plan(self) -> Plan:
        return self._flow._running_plan

    @property
    def has_ended(self) -> bool:
        """Whether no version of the flow runs; with the lock held."""
        return self._flow.state in (FlowState.COMPLETED, FlowState.CANCELLED, FlowState.FAILED)

    def apply(
        self, difference: PlanDifference, plan: Plan, **options: Unpack[SwapKeywords]
    ) -> dict[str, Any]:
        """Makes the difference, with the lock held. Raises if it cannot be made; an answer with
        `errors` says which part of it was made."""
        if difference.graph:
            if difference.lost is None or not options.get("discard_state"):
                difference.refuse_graph(self._flow.name)
            return self._restart(difference, plan, options)
        return self._swap(difference.nodes, code_digests(plan), options)

    def _compare(self) -> tuple[PlanDifference, Plan]:
        new = self.link()
        self._settle_code()
        return self.compare(new, changed_code(self._code, code_digests(new))), new

    def compare(
        self,
        new: Plan,
        content: Mapping[str, tuple[str, ...]],
        place_free: Callable[[str], str] = str,
    ) -> PlanDifference:
        """With the lock held. A restart loses what no checkpoint saves, too."""
        # Imported here: most flows run to their end as they are.
        from torvyn._flow.plan_difference import compare

        flow = self._flow
        found = compare(self.running_plan, new, content, place_free, flow._stateful_nodes)
        if not found.graph or found.lost is None:
            return found
        unsaved = (f"of node `{name}` {what}" for name, what in flow._unsaved_states.items())
        return replace(found, lost=(*found.lost, *unsaved))

    def _swap(
        self, changes: Sequence[NodeChange], code: dict[str, str], options: SwapKeywords
    ) -> dict[str, Any]:
        self._settle_code()
        for change in changes:
            if change.refusal is not None:
                raise change.refusal
        reports: list[dict[str, Any]] = []
        for change in changes:
            name = change.node.name
            try:
                report = self._flow._swap_node(change.node, **options)
            except FlowError as error:
                errors = [each.to_dict() for each in error.diagnostics]
                return {"swaps": reports, "errors": errors}
            if name in code:
                self._good_code.setdefault(name, self._code.get(name, ""))
                self._code[name] = code[name]
            reports.append(report.to_dict())
        return {"swaps": reports}

    def _settle_code(self) -> None:
        """Notes which code runs where a trial is over."""
        execution = self._flow._execution
        if execution is None:
            return
        for name in [*self._good_code]:
            verdict, _ = execution.swaps.swapper.verdict(name)
            if verdict in ("returned", "proved"):
                good = self._good_code.pop(name)
                self._code[name] = good if verdict == "returned" else self._code[name]

    # A new graph

    def _restart(
        self, difference: PlanDifference, plan: Plan, options: SwapKeywords
    ) -> dict[str, Any]:
        """Saves the state of the flow and has `take_successor` start the new one."""
        from torvyn._flow.swap import TRIAL_S
        from torvyn._flow.swap_checks import not_running

        old, began_s = self._flow, time.monotonic()
        if self.has_ended:
            raise not_running(plan.name)
        self._refuse_waiting(plan, difference.graph, asks_broker=True)
        kept = {node.name for node in plan.nodes} - {each.node.name for each in difference.nodes}
        names = {node.name for node in old.plan.nodes}
        self._discards = frozenset(names - kept if options.get("discard_state") else ())
        self._graph = difference.graph
        self._code_before, self._code = self._code, code_digests(plan)
        limit_s = _START_S + plan.runtime.drain_timeout_s
        self._trial_until_s = began_s + limit_s
        self._start_error, self._fallback = None, _with_running_code(old)
        self._successor = plan
        old.drain()
        while self._flow is old or not _has_started(self._flow):
            if time.monotonic() - began_s > limit_s:
                raise FlowError("cli.reload-failed", f"flow `{plan.name}` did not start again")
            time.sleep(_POLL_S)
        if (error := self._start_error) is not None:
            found = error.diagnostics if isinstance(error, TorvynError) else ()
            errors = [each.to_dict() for each in found]
            return {"swaps": [], "errors": errors or [_unknown(error)]}
        self._trial_until_s = time.monotonic() + options.get("trial_s", TRIAL_S)
        return {"swaps": [], "restarted_ms": (time.monotonic() - began_s) * 1e3}

    def _refuse_waiting(self, plan: Plan, graph: Sequence[str], *, asks_broker: bool) -> None:
        """Raises if elements wait where the new graph does not look for them."""
        from torvyn._flow.plan_difference import lost_by_restart, refuse_graph

        edges = self._flow.statistics.edges
        lost = lost_by_restart(plan, edges, asks_broker=asks_broker)
        hint = "undo the change, and make it again when nothing waits there"
        refuse_graph(plan.name, graph, lost, hint)

    def take_successor(self) -> Plan | None:
        """The plan of the flow that follows one that has ended; None if none does."""
        plan, self._successor = self._successor, None
        if plan is not None:
            try:
                # Elements may have come to an edge while the flow was brought to rest.
                self._refuse_waiting(plan, self._graph, asks_broker=False)
            except FlowError as error:
                self._start_error = error
                return self._take_fallback()
            return plan
        if self._fallback is None or self._start_error is not None:
            return None
        if not _has_started(self._flow):
            self._start_error = self._flow.error or RuntimeError("the flow did not start")
            return self._take_fallback()
        if self._flow.state == FlowState.FAILED and time.monotonic() < self._trial_until_s:
            name = self._flow.name
            logger.warning("flow `%s` is back at its old graph: the new one failed", name)
            self._start_error = self._flow.error
            return self._take_fallback()
        return None

    def _take_fallback(self) -> Plan | None:
        self._code, self._discards = self._code_before, frozenset()
        plan, self._fallback = self._fallback, None
        return plan

    def follow(self, flow: Flow) -> None:
        """This flow runs now."""
        flow._discarded_states, self._discards = self._discards, frozenset()
        if _has_started(self._flow):
            self._continued |= {node.name for node in self._flow.plan.nodes}
        flow._continued_nodes = self._continued
        self._flow = flow


def code_digests(plan: Plan) -> dict[str, str]:
    """The digest of the code of every node whose code is a file."""
    by_target: dict[str, str] = {}
    digests = {}
    for node in plan.nodes:
        target = node.component.target
        if node.component.kind not in ("project", "wasm"):
            continue
        if target not in by_target:
            by_target[target] = _digest(node)
        digests[node.name] = by_target[target]
    return digests


def _digest(node: NodePlan) -> str:
    """Of the `.wasm` file, or of the Python files beside the component: it may import them."""
    path = Path(node.component.target)
    files = {path.name: path} if path.is_file() else {}
    if node.component.kind == "project":
        folder = Path(node.component.target.rpartition(":")[0]).parent
        found = folder.rglob("*.py")
        files = {str(each.relative_to(folder)): each for each in found if each.is_file()}
    return tree_digest(files)


def changed_code(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The nodes whose digests differ, as `compare` takes them."""
    return {name: ("code",) for name in new if old.get(name) != new[name]}


def _has_started(flow: Flow) -> bool:
    """Whether its components are initialized; a flow that cannot start never has."""
    execution = flow._execution
    return execution is not None and execution.native is not None


def _with_running_code(flow: Flow) -> Plan:
    """The plan that runs, with new components of the classes that run: their files have changed."""
    plan, execution = flow._running_plan, flow._execution
    runners = [] if execution is None else execution.runners
    made = {
        runner.node.name: type(runner.component)()
        for runner in runners
        if runner.node.component.kind in ("project", "wasm") and runner.node.key is None
    }
    nodes = [
        replace(
            node,
            component=replace(
                node.component, instance=made.get(node.name, node.component.instance)
            ),
        )
        for node in plan.nodes
    ]
    return replace(plan, nodes=tuple(nodes))


def _unknown(error: BaseException) -> dict[str, str]:
    return {"code": "cli.reload-failed", "message": f"{type(error).__name__}: {error}"}
