"""`on_error`: the option of a flow or node -> `ErrorPolicy`, and the edges of dead letters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torvyn._link.component_traits import ERROR, INPUT
from torvyn._link.graph import reachable
from torvyn._link.plan import EdgePlan, ErrorPolicy, NodePlan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import ON_ERROR, POLICIES, FlowRecord, NodeRecord
from torvyn.errors import Location, quoted, suggestion

FAIL_FAST: Final = ErrorPolicy()
SET_ASIDE: Final = ErrorPolicy("set-aside")
_CODE: Final = "link.bad-policy"


def policies_of(flow: FlowRecord, problems: Problems) -> dict[str, ErrorPolicy]:
    """The policy of each node, else that of the flow. By default, a flow that keeps state sets
    aside what a node refuses: it would be refused again after every start."""
    is_durable = any(edge.carrier in ("disk", "nats") for edge in flow.edges)
    keeps_state = is_durable or bool(flow.checkpoint_s)
    policies = dict.fromkeys(flow.nodes, SET_ASIDE if keeps_state else FAIL_FAST)
    for name, node in flow.nodes.items():
        option = flow.on_error if node.on_error is None else node.on_error
        if option is not None:
            location = _location(flow, node)
            policies[name] = _parse_policy(option, location, problems, keeps_state=keeps_state)
    return policies


def _location(flow: FlowRecord, node: NodeRecord) -> Location:
    path = f"flow.{flow.name}"
    if node.on_error is not None:
        return node.at("on_error", f"{path}.nodes.{node.name}.on_error")
    return flow.at("on_error", f"{path}.on_error")


def _parse_policy(
    option: str | Mapping[str, Any],
    location: Location,
    problems: Problems,
    *,
    keeps_state: bool,
) -> ErrorPolicy:
    """The policy; fail-fast and a problem when the option is wrong. `keeps_state`: whether the flow
    has a folder, and so a place for its dead letters."""
    table: Mapping[str, Any] = {"policy": option} if isinstance(option, str) else option
    if not table:
        return FAIL_FAST
    before = len(problems)
    values = ON_ERROR.values(table, _CODE, location, problems)
    if len(problems) == before:
        _check_combination(table, location, problems, keeps_state)
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
    table: Mapping[str, Any], location: Location, problems: Problems, keeps_state: bool
) -> None:
    policy = table.get("policy")
    if policy is None:
        hint = f"it must be {quoted(POLICIES, 'or')}"
        problems.add(_CODE, "`on_error` has no `policy`", location, hint)
    stray = [name for name in ("max", "backoff", "max_backoff", "then") if name in table]
    if policy != "retry" and stray:
        message = f'{quoted(stray)} of `on_error` needs `policy = "retry"`, not `{policy}`'
        problems.add(_CODE, message, location)
    keeps_letters = "dead-letter" in (policy, table.get("then"))
    if keeps_letters and not (table.get("to") or (keeps_state and "to" not in table)):
        hint = 'write `to = "node"`, or the path of a file such as `to = "errors.jsonl"`'
        problems.add(_CODE, "`dead-letter` needs `to`, the target of dead letters", location, hint)
    if "set-aside" in (policy, table.get("then")) and not keeps_state:
        message = "`set-aside` needs a flow that keeps state: this one has no place for elements"
        hint = 'write `carrier = "disk"` on an edge, or `checkpoint = "1s"` in the flow'
        problems.add(_CODE, message, location, hint)
    if not keeps_letters and table.get("to") is not None:
        problems.add(_CODE, f"`to` needs the policy `dead-letter`, not `{policy}`", location)


@dataclass(slots=True)
class DeadLetters:
    """Where the dead letters of a flow go."""

    nodes: dict[str, NodePlan | None]
    """The nodes of the flow; those where a policy of the flow cannot apply have lost it."""
    sinks: dict[str, NodeRecord] = field(default_factory=dict)
    """The sinks to add, by the files that they write."""
    edges: list[tuple[str, str, Location]] = field(default_factory=list)
    """Source, target and location of the edges to add."""


def find_dead_letters(
    flow: FlowRecord,
    nodes: Mapping[str, NodePlan | None],
    edges: Sequence[EdgePlan],
    problems: Problems,
) -> DeadLetters:
    letters = DeadLetters(dict(nodes))
    for name, node in nodes.items():
        if node is None or node.on_error.to is None:
            continue
        record, to = flow.nodes[name], node.on_error.to
        links = [(edge.source, edge.target) for edge in edges]
        links += [(source, target) for source, target, _ in letters.edges]
        if _applies(flow, record, node, links, problems):
            target = _target(flow, record, to, letters, problems)
            if target is not None:
                letters.edges.append((name, target, _location(flow, record)))
        elif record.on_error is None:
            ports = tuple(port for port in node.ports if port != ERROR)
            letters.nodes[name] = replace(node, ports=ports, on_error=FAIL_FAST)
    return letters


def _applies(
    flow: FlowRecord,
    record: NodeRecord,
    node: NodePlan,
    links: Sequence[tuple[str, str]],
    problems: Problems,
) -> bool:
    is_own = record.on_error is not None
    if node.role == "source":
        if is_own:
            message = f"`{node.name}` is a source: it has no input element to set aside"
            hint = "use `retry` or `fail-fast`"
            problems.add(_CODE, message, _location(flow, record), hint)
        return False
    start = (node.on_error.to or "").partition(":")[0]
    behind = reachable([start], lambda name: [to for source, to in links if source == name])
    return is_own or node.name not in behind


def _target(
    flow: FlowRecord, record: NodeRecord, to: str, letters: DeadLetters, problems: Problems
) -> str | None:
    """The node that receives the letters; for a file, a sink that writes it."""
    location = _location(flow, record)
    node, _, port = to.partition(":")
    if node in flow.nodes:
        if port not in ("", INPUT):
            message = f"`{node}` has no input port `{port}`"
            problems.add("link.input-port-unknown", message, location)
        return node
    if os.sep not in to and "." not in to:
        hint = suggestion(node, flow.nodes, "the name of a file needs a dot or a slash")
        message = f"dead letters of `{record.name}` go to `{node}`, which is not a node"
        problems.add("link.node-unknown", message, location, hint)
        return None
    config = {"path": to, "format": "json"}
    sink = NodeRecord(f"{record.name}.dead-letter", "file", config=config, location=location)
    return letters.sinks.setdefault(to, sink).name
