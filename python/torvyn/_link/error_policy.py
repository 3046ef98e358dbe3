"""`on_error`: the option of a flow or node -> `ErrorPolicy`, and the edges of dead letters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from torvyn._link.component_traits import ERROR, INPUT
from torvyn._link.graph import reachable
from torvyn._link.node_linker import NodeLinker
from torvyn._link.plan import EdgePlan, ErrorPolicy, NodePlan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import ON_ERROR, POLICIES, FlowRecord, NodeRecord
from torvyn.errors import Location, quoted, suggestion

_SUFFIX: Final = "dead-letter"


class DeadLetters:
    """The error policies of one flow, and the targets of its dead letters."""

    def __init__(self, flow: FlowRecord, node_linker: NodeLinker, problems: Problems) -> None:
        self._flow = flow
        self._node_linker = node_linker
        self._problems = problems
        self._sinks: dict[str, NodePlan] = {}
        is_durable = any(edge.carrier in ("disk", "nats") for edge in flow.edges)
        self._keeps_state = is_durable or bool(flow.checkpoint_s)

    @property
    def sinks(self) -> dict[str, NodePlan]:
        """The sinks that link added, one per file of dead letters."""
        return {node.name: node for node in self._sinks.values()}

    def policy(self, node: NodeRecord) -> ErrorPolicy:
        """The policy of the node, else that of the flow. By default, a flow that keeps state sets
        aside what a node refuses: it would be refused again after every start."""
        option = self._flow.on_error if node.on_error is None else node.on_error
        keeps_state = self._keeps_state
        if option is None:
            return SET_ASIDE if keeps_state else FAIL_FAST
        return parse_policy(option, self._place(node), self._problems, keeps_state=keeps_state)

    def edges(
        self, nodes: dict[str, NodePlan | None], edges: Sequence[EdgePlan]
    ) -> list[tuple[str, str, Location]]:
        """Source, target and location of each edge of dead letters. A policy of the flow is
        removed from nodes where it cannot apply."""
        found: list[tuple[str, str, Location]] = []
        for name, node in list(nodes.items()):
            if node is None or node.on_error.to is None:
                continue
            record = self._flow.nodes[name]
            links = [*((edge.source, edge.target) for edge in edges), *(e[:2] for e in found)]
            if self._applies(record, node, links):
                target = self._target(record, node.on_error.to, nodes)
                found += [] if target is None else [(name, target, self._place(record))]
            elif record.on_error is None:
                ports = tuple(port for port in node.ports if port != ERROR)
                nodes[name] = replace(node, ports=ports, on_error=FAIL_FAST)
        return found

    def _applies(
        self, record: NodeRecord, node: NodePlan, links: Sequence[tuple[str, str]]
    ) -> bool:
        is_own = record.on_error is not None
        if node.role == "source":
            if is_own:
                message = f"`{node.name}` is a source: it has no input element to set aside"
                self._complain(record, message, "use `retry` or `fail-fast`")
            return False
        return is_own or not _leads((node.on_error.to or "").partition(":")[0], node.name, links)

    def _target(
        self, record: NodeRecord, to: str, nodes: Mapping[str, NodePlan | None]
    ) -> str | None:
        """The node that receives the letters; for a file, a sink that writes it."""
        node, _, port = to.partition(":")
        if node in nodes:
            if port not in ("", INPUT):
                message = f"`{node}` has no input port `{port}`"
                self._complain(record, message, None, "link.input-port-unknown")
            return node
        if os.sep not in to and "." not in to:
            hint = suggestion(node, nodes, "the name of a file needs a dot or a slash")
            message = f"dead letters of `{record.name}` go to `{node}`, which is not a node"
            self._complain(record, message, hint, "link.node-unknown")
            return None
        if to not in self._sinks:
            config = {"path": to, "format": "json"}
            place = self._place(record)
            sink = NodeRecord(f"{record.name}.{_SUFFIX}", "file", config=config, location=place)
            plan = self._node_linker.link(sink, FAIL_FAST, self._problems)
            if plan is None:
                return None
            self._sinks[to] = plan
        return self._sinks[to].name

    def _place(self, node: NodeRecord) -> Location:
        path = f"flow.{self._flow.name}"
        if node.on_error is not None:
            return node.at("on_error", f"{path}.nodes.{node.name}.on_error")
        return self._flow.at("on_error", f"{path}.on_error")

    def _complain(
        self, node: NodeRecord, message: str, hint: str | None, code: str = "link.bad-policy"
    ) -> None:
        self._problems.add(code, message, self._place(node), hint)


def _leads(start: str, goal: str, links: Sequence[tuple[str, str]]) -> bool:
    """Whether a path leads from one node to another."""
    return goal in reachable(
        [start], lambda name: [target for source, target in links if source == name]
    )


CODE = "link.bad-policy"
FAIL_FAST: Final = ErrorPolicy()
SET_ASIDE: Final = ErrorPolicy("set-aside")


def parse_policy(
    option: str | Mapping[str, Any] | None,
    place: Location | None,
    problems: Problems,
    *,
    keeps_state: bool,
) -> ErrorPolicy:
    """The policy; fail-fast and a problem when the option is wrong. `keeps_state`: whether the flow
    has a folder, and so a place for its dead letters."""
    table: Mapping[str, Any] = {"policy": option} if isinstance(option, str) else option or {}
    if not table:
        return FAIL_FAST
    before = len(problems)
    values = ON_ERROR.values(table, CODE, place, problems)
    if len(problems) == before:
        _check_combination(table, place, problems, keeps_state)
    if len(problems) > before:
        return FAIL_FAST
    then = "set-aside" if keeps_state and "then" not in table else values["then"]
    return ErrorPolicy(
        values["policy"],
        values["max"],
        values["backoff"],
        then,
        values["to"],
        values["max_backoff"],
    )


def _check_combination(
    table: Mapping[str, Any], place: Location | None, problems: Problems, keeps_state: bool
) -> None:
    policy = table.get("policy")
    if policy is None:
        hint = f"it must be {quoted(POLICIES, 'or')}"
        problems.add(CODE, "`on_error` has no `policy`", place, hint)
    stray = [name for name in ("max", "backoff", "max_backoff", "then") if name in table]
    if policy != "retry" and stray:
        message = f'{quoted(stray)} of `on_error` needs `policy = "retry"`, not `{policy}`'
        problems.add(CODE, message, place)
    keeps_letters = "dead-letter" in (policy, table.get("then"))
    if keeps_letters and not (table.get("to") or (keeps_state and "to" not in table)):
        hint = 'write `to = "node"`, or the path of a file such as `to = "errors.jsonl"`'
        problems.add(CODE, "`dead-letter` needs `to`, the target of dead letters", place, hint)
    if "set-aside" in (policy, table.get("then")) and not keeps_state:
        message = "`set-aside` needs a flow that keeps state: this one has no place for elements"
        hint = 'write `carrier = "disk"` on an edge, or `checkpoint = "1s"` in the flow'
        problems.add(CODE, message, place, hint)
    if not keeps_letters and table.get("to") is not None:
        problems.add(CODE, f"`to` needs the policy `dead-letter`, not `{policy}`", place)
