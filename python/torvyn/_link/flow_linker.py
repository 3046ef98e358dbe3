"""`FlowRecord` -> `Plan`: every name resolved, every edge checked, nothing started.

A record comes from a manifest or from a program (`Flow.add`, `Flow.connect`); both follow the same
rules. All problems of a flow are collected, so that one `LinkError` reports them together.

Nodes, edges, dead letters and the graph are linked in this order, whatever problems they have; each
pass returns what it found. A Plan exists only if they have none, so the rules of a Plan need not
expect a part that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from torvyn._contract.inspection import is_instance
from torvyn._link.component_library import Library
from torvyn._link.component_traits import ERROR, INPUT, OUTPUT
from torvyn._link.defaults import (
    DEFAULT_CHECKPOINT_S,
    audit_file,
    cluster_plan,
    defaults_of,
    state_dir,
    telemetry_plan,
)
from torvyn._link.error_policy import FAIL_FAST, find_dead_letters, policies_of
from torvyn._link.graph import Parts, check_graph, order
from torvyn._link.node_linker import LinkedNode, NodeLinker
from torvyn._link.plan import EdgePlan, NodePlan, Plan
from torvyn._link.plan_checks import check_carrier, check_one_carrier, check_plan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import EDGE, FLOW, EdgeRecord, FlowRecord
from torvyn._manifest.schema import Record, Table
from torvyn._manifest.settings import Settings, process_settings
from torvyn.errors import LinkError, Location, near, quoted, suggestion

_LIBRARY: Final = Library()
_OPTIONS: Final = ("priority", "deadline", "max_memory", "cpu_share", "checkpoint")
_QUEUE: Final = ("queue_depth", "queue_bytes", "backpressure")
"""The options of a flow's queues, for edges that set none of their own."""
_EDGE: Final = {
    "queue_depth": "depth",
    "queue_bytes": "bytes",
    "backpressure": "backpressure",
    "low_watermark": "low_watermark",
    "carrier": "carrier",
    "max_bytes": "max_bytes",
    "max_age": "max_age_s",
    "order": "order",
    "drain_rate": "drain_rate",
    "max_waiting": "max_waiting",
}
"""The options of an edge, and their names in a Plan."""
_NO_OPTIONS: Final[Mapping[str, Any]] = {}


def link_flow(
    flow: FlowRecord,
    *,
    settings: Settings | None = None,
    open_start: bool = False,
    open_end: bool = False,
) -> Plan:
    """The Plan of a flow that a program built; raises one `LinkError` for all problems.

    A flow with `open_start` may lack a source (its caller feeds it), one with `open_end` a sink
    (its caller iterates it). Without `settings`, the environment and the user's config are read.
    """
    problems = Problems()
    settings = settings or process_settings()
    plan = link_leniently(
        flow, _LIBRARY, settings, problems, open_start=open_start, open_end=open_end
    )
    if plan is None or problems:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    return plan


def link_leniently(
    flow: FlowRecord,
    library: Library,
    settings: Settings,
    problems: Problems,
    *,
    is_whole: bool = True,
    open_start: bool = False,
    open_end: bool = False,
) -> Plan | None:
    """The Plan, or None if the flow has problems. `problems` are those of this flow alone.
    `is_whole` is False if the parser could not read a part of the flow."""
    path, defaults = f"flow.{flow.name}", defaults_of(settings)
    options = {name: FLOW.value(flow, name, path, problems) for name in _OPTIONS}
    node_linker = NodeLinker(flow.name, library, defaults, problems)
    linked = _link_nodes(flow, node_linker)
    parts = _link_parts(flow, linked, node_linker)
    check_graph(flow, parts, problems, open_start=open_start, open_end=open_end)
    check_one_carrier(parts.edges, problems)
    if problems or not is_whole or None in parts.nodes.values():
        return None
    plan = _plan(flow, parts, options, node_linker)
    stateful = {name for name, node in linked.items() if node is not None and node.keeps_state}
    check_plan(plan, stateful, flow.location or Location(path=path), problems)
    return plan


def _link_nodes(flow: FlowRecord, linker: NodeLinker) -> dict[str, LinkedNode | None]:
    policies = policies_of(flow, linker.problems)
    names = [node.component for node in flow.nodes.values() if is_instance(node.component, str)]
    linker.library.warm(names)
    fed = {edge.target.node for edge in flow.edges}
    return {
        name: linker.link(node, policies[name], has_input=name in fed)
        for name, node in flow.nodes.items()
    }


def _link_parts(
    flow: FlowRecord, linked: Mapping[str, LinkedNode | None], node_linker: NodeLinker
) -> Parts:
    """The nodes with the edges between them, and what dead letters add: edges, and sinks."""
    problems = node_linker.problems
    nodes = {name: node and node.plan for name, node in linked.items()}
    edge_linker = _EdgeLinker(flow, nodes, problems)
    edges, is_complete = edge_linker.link()
    letters = find_dead_letters(flow, nodes, edges, problems)
    sinks = {record.name: node_linker.link(record, FAIL_FAST) for record in letters.sinks.values()}
    added = {name: node and node.plan for name, node in sinks.items()}
    edges += [edge_linker.edge((a, ERROR, b), location) for a, b, location in letters.edges]
    return Parts({**letters.nodes, **added}, edges, frozenset(added), is_complete)


class _EdgeLinker:
    """Links the edges of one flow, once its nodes are known."""

    def __init__(
        self, flow: FlowRecord, nodes: Mapping[str, NodePlan | None], problems: Problems
    ) -> None:
        self._flow = flow
        self._nodes = nodes
        self._problems = problems
        self._seen: set[tuple[str, str, str, str]] = set()
        self._queue = self._values(FLOW, flow, f"flow.{flow.name}", _QUEUE)

    def link(self) -> tuple[list[EdgePlan], bool]:
        """The edges between known nodes, and whether these are all."""
        path = f"flow.{self._flow.name}.edges"
        found = [self._link(edge, f"{path}[{i}]") for i, edge in enumerate(self._flow.edges)]
        edges = [edge for edge in found if edge is not None]
        return edges, len(edges) == len(found)

    def edge(
        self,
        ends: tuple[str, str, str],
        location: Location | None,
        options: Mapping[str, Any] = _NO_OPTIONS,
        target_input: str = INPUT,
    ) -> EdgePlan:
        """An edge with the flow's options where it has none of its own."""
        known = {
            _EDGE[name]: value
            for name, value in (*self._queue.items(), *options.items())
            if value is not None
        }
        if known.get("carrier") == "nats":
            # The broker refuses what does not fit, and the flow waits.
            known["backpressure"] = "block"
        return EdgePlan(*ends, **known, input=target_input, location=location)

    def _link(self, edge: EdgeRecord, path: str) -> EdgePlan | None:
        """The edge, or None if one of its nodes is unknown."""
        has_source = self._knows(edge, edge.source.node, path, "from")
        is_known = self._knows(edge, edge.target.node, path, "to") and has_source
        port = self._port(edge, path) if is_known else OUTPUT
        target_input = self._input(edge, path) if is_known else INPUT
        options = self._values(EDGE, edge, path, _EDGE)
        check_carrier(edge, path, options, self._problems)
        if not is_known:
            return None
        location = edge.at("from", path)
        ends = (edge.source.node, port, edge.target.node)
        if (*ends, target_input) in self._seen:
            message = f"two edges lead from `{edge.source.node}:{port}` to `{edge.target.node}`"
            hint = "every element would arrive twice; remove one of them"
            self._problems.add("link.edge-repeated", message, location, hint)
        self._seen.add((*ends, target_input))
        return self.edge(ends, location, options, target_input)

    def _values(
        self, table: Table, record: Record, path: str, names: Iterable[str]
    ) -> dict[str, Any]:
        """Those of the options that the record sets; None for those that are wrong."""
        return {
            name: table.value(record, name, path, self._problems)
            for name in names
            if getattr(record, table.by_name[name].attribute) is not None
        }

    def _knows(self, edge: EdgeRecord, name: str, path: str, key: str) -> bool:
        """Whether the node exists. The parser has reported an end that it could not read."""
        if name in self._nodes or not name:
            return bool(name)
        location = edge.at(key, f"{path}.{key}")
        listing = f"its nodes are {quoted(self._nodes)}" if self._nodes else "it has no nodes"
        hint = suggestion(name, self._nodes, listing)
        message = f"flow `{self._flow.name}` has no node `{name}`"
        self._problems.add("link.node-unknown", message, location, hint)
        return False

    def _port(self, edge: EdgeRecord, path: str) -> str:
        """The port that the edge starts at."""
        node = self._nodes[edge.source.node]
        if node is None or node.role == "sink":
            return edge.source.port or OUTPUT
        ports = [port for port in node.ports if port != ERROR]
        port = edge.source.port or (ports[0] if len(ports) == 1 else OUTPUT)
        if ports and port not in ports:
            listing = f"its ports are {quoted(ports)}" if ports[1:] else f"its port is `{ports[0]}`"
            message = f"{node.role} `{node.name}` has no output port `{port}`"
            location = edge.at("from", f"{path}.from")
            self._problems.add("link.port-unknown", message, location, near(port, ports, listing))
        return port

    def _input(self, edge: EdgeRecord, path: str) -> str:
        """The input that the edge leads to."""
        node, target = self._nodes[edge.target.node], edge.target
        inputs = node.inputs if node is not None and node.inputs else (INPUT,)
        name = target.port or INPUT
        if name not in inputs and (node is not None or target.port):
            listing = f'its inputs are {quoted(inputs)}; write `to = "{target.node}:{inputs[0]}"`'
            if inputs == (INPUT,):
                listing = f"its input port is `{INPUT}`"
            message = f"`{target.node}` has no input port `{name}`"
            location = edge.at("to", f"{path}.to")
            self._problems.add("link.input-port-unknown", message, location, listing)
        return name


def _plan(flow: FlowRecord, parts: Parts, options: Mapping[str, Any], linker: NodeLinker) -> Plan:
    defaults, folder, edges = linker.defaults, linker.library.written, parts.edges
    settings, problems = defaults.settings, linker.problems
    is_durable = any(edge.carrier != "memory" for edge in edges)
    nodes = {name: node for name, node in parts.nodes.items() if node is not None}
    return Plan(
        name=flow.name,
        nodes=tuple(nodes[name] for name in order(nodes, edges)),
        edges=tuple(edges),
        description=flow.description or "",
        priority=options["priority"] or FLOW.default("priority"),
        deadline_s=options["deadline"],
        max_memory_bytes=options["max_memory"],
        cpu_share=options["cpu_share"],
        runtime=defaults.runtime,
        observability=settings["observability.level"],
        audit=settings["security.audit"],
        audit_file=audit_file(settings, folder),
        checkpoint_s=options["checkpoint"] or (DEFAULT_CHECKPOINT_S if is_durable else None),
        state_dir=state_dir(settings, folder),
        telemetry=telemetry_plan(settings, folder),
        cluster=cluster_plan(settings, edges, folder),
        warnings=problems.warnings(),
        secrets=frozenset(problems.secrets),
    )
