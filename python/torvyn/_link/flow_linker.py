"""`FlowRecord` -> `Plan`: every name resolved, every edge checked, nothing started.

A record comes from a manifest or from a program (`Flow.add`, `Flow.connect`); both follow the same
rules. All problems of a flow are collected, so that one `LinkError` reports them together.

Nodes, edges and the graph are linked in this order, whatever problems they have. A Plan exists only
if they have none, so the rules of a Plan need not expect a part that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from torvyn._link.error_policy import DeadLetters
from torvyn._link.graph import Graph, check_requests, check_router_ports, check_topology, order
from torvyn._link.node_linker import NodeLinker
from torvyn._link.plan import EdgePlan, NodePlan, Plan
from torvyn._link.plan_checks import (
    check_budgets,
    check_carrier,
    check_one_carrier,
    check_places,
    check_segment_cycles,
    check_stored_once,
)
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import EDGE, FLOW, EdgeRecord, FlowRecord
from torvyn._manifest.schema import near
from torvyn._manifest.settings import Settings, process_settings
from torvyn.errors import LinkError, Location, quoted, suggestion

_LIBRARY: Final = Library()
_QUEUE: Final = {"queue_depth": "depth", "queue_bytes": "bytes", "backpressure": "backpressure"}
"""The options of a flow's queues, and their names in a Plan."""
_OPTIONS: Final = ("priority", "deadline", "max_memory", "cpu_share", "checkpoint")
_EDGE: Final = {
    **_QUEUE,
    "low_watermark": "low_watermark",
    "carrier": "carrier",
    "max_bytes": "max_bytes",
    "max_age": "max_age_s",
    "order": "order",
    "drain_rate": "drain_rate",
    "max_waiting": "max_waiting",
}


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
    linker = FlowLinker(flow, _LIBRARY, settings or process_settings(), problems)
    plan = linker.link(open_start=open_start, open_end=open_end)
    if plan is None or problems:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    return plan


class FlowLinker:
    """Links one flow. `problems` are those of this flow alone."""

    def __init__(
        self,
        flow: FlowRecord,
        library: Library,
        settings: Settings,
        problems: Problems,
        *,
        is_whole: bool = True,
    ) -> None:
        self._flow = flow
        self._is_whole = is_whole
        """False if the parser could not read a part of the flow."""
        self._problems = problems
        self._settings = settings
        self._library = library
        self._path = f"flow.{flow.name}"
        self._nodes: dict[str, NodePlan | None] = {}
        self._edges: list[EdgePlan] = []
        self._seen: set[tuple[str, str, str, str]] = set()
        self._has_all_edges = True
        """Whether both nodes of every edge are known; if not, reachability cannot be checked."""
        self._defaults = defaults_of(settings)
        self._node_linker = NodeLinker(flow.name, library, self._defaults)
        self._dead_letters = DeadLetters(flow, self._node_linker, problems)

    def link(self, *, open_start: bool = False, open_end: bool = False) -> Plan | None:
        """The Plan, or None if the flow has problems or could not be read as a whole."""
        options = {name: self._value(name) for name in _OPTIONS}
        self._link_nodes()
        self._link_edges()
        if self._has_all_edges:
            records, path = self._flow.nodes, self._path
            check_router_ports(self._nodes, records, self._edges, path, self._problems)
            check_requests(self._nodes, self._edges, self._problems)
        check_topology(self._graph(), self._problems, open_start=open_start, open_end=open_end)
        check_one_carrier(self._edges, self._problems)
        if self._problems or not self._is_whole or None in self._nodes.values():
            return None
        plan = self._plan(options)
        self._check_plan(plan)
        return plan

    def _check_plan(self, plan: Plan) -> None:
        """The rules that need every node and every edge."""
        check_places(plan, self._node_linker.stateful, self._problems)
        check_segment_cycles(plan, self._problems)
        check_stored_once(plan, self._problems)
        check_budgets(plan, self._flow.location or Location(path=self._path), self._problems)

    def _link_nodes(self) -> None:
        flow = self._flow
        policies = {name: self._dead_letters.policy(node) for name, node in flow.nodes.items()}
        names = [node.component for node in flow.nodes.values() if is_instance(node.component, str)]
        if names:
            self._library.warm(names)
        fed = {edge.target.node for edge in flow.edges}
        for name, node in flow.nodes.items():
            self._nodes[name] = self._node_linker.link(
                node, policies[name], self._problems, has_input=name in fed
            )

    def _link_edges(self) -> None:
        for index, edge in enumerate(self._flow.edges):
            self._link_edge(edge, f"{self._path}.edges[{index}]")
        for source, target, place in self._dead_letters.edges(self._nodes, self._edges):
            self._edges.append(self._edge((source, ERROR, target), place, {}))

    def _value(self, name: str) -> Any:
        return FLOW.value(self._flow, name, self._path, self._problems)

    def _link_edge(self, edge: EdgeRecord, path: str) -> None:
        is_known = self._knows(edge, edge.source.node, path, "from")
        is_known = self._knows(edge, edge.target.node, path, "to") and is_known
        port = self._check_ports(edge, path) if is_known else OUTPUT
        target_input = self._check_input(edge, path) if is_known else INPUT
        options = {
            field: EDGE.value(edge, name, path, self._problems)
            for name, field in _EDGE.items()
            if getattr(edge, EDGE.by_name[name].attribute) is not None
        }
        check_carrier(
            edge,
            path,
            {name: options[field] for name, field in _EDGE.items() if field in options},
            self._problems,
        )
        if not is_known:
            self._has_all_edges = False
            return
        place = edge.at("from", path)
        if target_input != INPUT:
            options["input"] = target_input
        ends = (edge.source.node, port, edge.target.node)
        if (*ends, target_input) in self._seen:
            message = f"two edges lead from `{edge.source.node}:{port}` to `{edge.target.node}`"
            hint = "every element would arrive twice; remove one of them"
            self._problems.add("link.edge-repeated", message, place, hint)
        self._seen.add((*ends, target_input))
        self._edges.append(self._edge(ends, place, options))

    def _edge(
        self, ends: tuple[str, str, str], place: Location | None, options: dict[str, Any]
    ) -> EdgePlan:
        """An edge with the flow's options where it has none of its own."""
        flow_options = {
            field: self._value(name)
            for name, field in _QUEUE.items()
            if getattr(self._flow, name) is not None
        }
        known = {
            field: value
            for field, value in (*flow_options.items(), *options.items())
            if value is not None
        }
        if known.get("carrier") == "nats":
            # The broker refuses what does not fit, and the flow waits.
            known["backpressure"] = "block"
        return EdgePlan(*ends, **known, location=place)

    def _knows(self, edge: EdgeRecord, name: str, path: str, key: str) -> bool:
        """Whether the node exists. The parser has reported an end that it could not read."""
        if name in self._nodes or not name:
            return bool(name)
        place = edge.at(key, f"{path}.{key}")
        listing = f"its nodes are {quoted(self._nodes)}" if self._nodes else "it has no nodes"
        hint = suggestion(name, self._nodes, listing)
        message = f"flow `{self._flow.name}` has no node `{name}`"
        self._problems.add("link.node-unknown", message, place, hint)
        return False

    def _check_ports(self, edge: EdgeRecord, path: str) -> str:
        node = self._nodes[edge.source.node]
        if node is None or node.role == "sink":
            return edge.source.port or OUTPUT
        ports = [port for port in node.ports if port != ERROR]
        port = edge.source.port or (ports[0] if len(ports) == 1 else OUTPUT)
        if ports and port not in ports:
            listing = f"its ports are {quoted(ports)}" if ports[1:] else f"its port is `{ports[0]}`"
            message = f"{node.role} `{node.name}` has no output port `{port}`"
            place = edge.at("from", f"{path}.from")
            self._problems.add("link.port-unknown", message, place, near(port, ports, listing))
        return port

    def _check_input(self, edge: EdgeRecord, path: str) -> str:
        """The input that the edge leads to."""
        node, target = self._nodes[edge.target.node], edge.target
        inputs = node.inputs if node is not None and node.inputs else (INPUT,)
        name = target.port or INPUT
        if name not in inputs and (node is not None or target.port):
            listing = f'its inputs are {quoted(inputs)}; write `to = "{target.node}:{inputs[0]}"`'
            if inputs == (INPUT,):
                listing = f"its input port is `{INPUT}`"
            message = f"`{target.node}` has no input port `{name}`"
            place = edge.at("to", f"{path}.to")
            self._problems.add("link.input-port-unknown", message, place, listing)
        return name

    def _graph(self) -> Graph:
        sinks = self._dead_letters.sinks
        nodes = {**self._nodes, **sinks} if sinks else self._nodes
        roles = {name: node.role if node else None for name, node in nodes.items()}
        places = {name: node.location for name, node in self._flow.nodes.items()}
        return Graph(
            roles, self._edges, places, self._flow.location, frozenset(sinks), self._has_all_edges
        )

    def _plan(self, options: Mapping[str, Any]) -> Plan:
        nodes = {name: node for name, node in self._nodes.items() if node is not None}
        nodes |= self._dead_letters.sinks
        settings = self._settings
        is_durable = any(edge.carrier != "memory" for edge in self._edges)
        checkpoint_s = options["checkpoint"] or (DEFAULT_CHECKPOINT_S if is_durable else None)
        return Plan(
            name=self._flow.name,
            nodes=tuple(nodes[name] for name in order(nodes, self._edges) if name in nodes),
            edges=tuple(self._edges),
            description=self._flow.description or "",
            priority=options["priority"] or FLOW.default("priority"),
            deadline_s=options["deadline"],
            max_memory_bytes=options["max_memory"],
            cpu_share=options["cpu_share"],
            runtime=self._defaults.runtime,
            observability=settings["observability.level"],
            audit=settings["security.audit"],
            audit_file=audit_file(settings, self._library.written),
            checkpoint_s=checkpoint_s,
            state_dir=state_dir(settings, self._library.written),
            telemetry=telemetry_plan(settings, self._library.written),
            cluster=cluster_plan(settings, self._edges, self._library.written),
            warnings=self._problems.warnings(),
            secrets=frozenset(self._problems.secrets),
        )
