"""The rules of names and roles.

The graph is acyclic, every node is on a path from a source to a sink, each port of a router has an
edge or is in `ignored_ports`, and one `request` leads to one engine. The edges include those of
dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Final

from torvyn._contract.inspection import is_instance
from torvyn._contract.roles import RequestProcessor, RequestSource
from torvyn._link.component_traits import ERROR, INPUT
from torvyn._link.plan import EdgePlan, NodePlan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NODE, FlowRecord, NodeRecord
from torvyn.errors import Location, near, quoted

PORT_LIMIT: Final = 16
_SHAPE: Final = "request -> guards -> engine -> guards -> response"
_REQUEST: Final = "request"


def order(names: Iterable[str], edges: Iterable[EdgePlan]) -> tuple[str, ...]:
    """The names in topological order: those without an edge first, as they are declared; each other
    one as soon as all before it have their place. Raises `CycleError`."""
    return _order(tuple(names), tuple([(edge.source, edge.target) for edge in edges]))


@lru_cache
def _order(names: tuple[str, ...], pairs: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    # Cached, as `_is_sound` is: a program that builds a thousand flows of one shape pays for one.
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(names, ()))
    for source, target in pairs:
        sorter.add(target, source)
    return tuple(sorter.static_order())


def reachable(starts: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    """The starts and every node that steps lead to from them."""
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(step(name))
    return seen


@dataclass(frozen=True, slots=True)
class Parts:
    """The nodes and edges of a flow, before it is known whether they form a Plan."""

    nodes: Mapping[str, NodePlan | None]
    """None: the node's component was not found."""
    edges: Sequence[EdgePlan]
    added: frozenset[str]
    """Sinks of dead letters, which link added; a flow needs another sink."""
    is_complete: bool
    """Whether both nodes of every edge are known."""


def check_graph(
    flow: FlowRecord, parts: Parts, problems: Problems, *, open_start: bool, open_end: bool
) -> None:
    """Adds a problem for every broken rule."""
    nodes, edges, added = parts.nodes, parts.edges, parts.added
    if parts.is_complete:
        _check_router_ports(flow, nodes, edges, problems)
        _check_requests(nodes, edges, problems)
    roles = {name: node.role if node else None for name, node in nodes.items()}
    shape = tuple(roles.items()), tuple([(edge.source, edge.port, edge.target) for edge in edges])
    if not (parts.is_complete and _is_sound(*shape, added, open_start, open_end)):
        locations = {name: node.location for name, node in flow.nodes.items()}
        graph = _Graph(roles, edges, locations, flow.location, added, parts.is_complete)
        _check_topology(graph, problems, open_start=open_start, open_end=open_end)


@dataclass(frozen=True, slots=True)
class _Graph:
    """A flow as names and roles. A role is None when the node's component was not found."""

    roles: Mapping[str, str | None]
    edges: Sequence[EdgePlan]
    locations: Mapping[str, Location | None]
    flow_location: Location | None = None
    added: frozenset[str] = frozenset()
    is_complete: bool = True
    """False when an edge is missing, so that reachability cannot be checked."""

    def after(self, name: str) -> list[str]:
        return [edge.target for edge in self.edges if edge.source == name]

    def before(self, name: str) -> list[str]:
        return [edge.source for edge in self.edges if edge.target == name]

    def with_role(self, role: str) -> list[str]:
        return [name for name, own in self.roles.items() if own == role and name not in self.added]


@lru_cache
def _is_sound(
    roles: tuple[tuple[str, str | None], ...],
    ends: tuple[tuple[str, str, str], ...],
    added: frozenset[str],
    open_start: bool,
    open_end: bool,
) -> bool:
    problems = Problems()
    graph = _Graph(dict(roles), [EdgePlan(*found) for found in ends], {}, added=added)
    _check_topology(graph, problems, open_start=open_start, open_end=open_end)
    return not problems


def _check_topology(graph: _Graph, problems: Problems, *, open_start: bool, open_end: bool) -> None:
    if not graph.roles:
        hint = "add nodes, and edges between them"
        problems.add("link.no-source", "the flow has no nodes", graph.flow_location, hint)
        return
    _check_ends(graph, problems)
    _check_port_limits(graph, problems)
    cycle = _cycle(graph)
    if cycle:
        way = " -> ".join(f"`{name}`" for name in cycle)
        location = _edge_location(graph, cycle[0], cycle[1])
        hint = "a flow cannot have a cycle; remove one of these edges"
        problems.add("link.cycle", f"the edges form a cycle: {way}", location, hint)
    elif graph.is_complete and None not in graph.roles.values():
        _check_starts(graph, problems, open_start)
        _check_finishes(graph, problems, open_end)


def _check_ends(graph: _Graph, problems: Problems) -> None:
    for edge in graph.edges:
        if graph.roles.get(edge.target) == "source":
            message = f"`{edge.target}` is a source and has no input"
            problems.add("link.source-has-input", message, edge.location)
        if graph.roles.get(edge.source) == "sink" and edge.port != ERROR:
            message = f"`{edge.source}` is a sink and has no output"
            problems.add("link.sink-has-output", message, edge.location)


def _check_port_limits(graph: _Graph, problems: Problems) -> None:
    ends: dict[tuple[str, str], list[EdgePlan]] = {}
    for edge in graph.edges:
        ends.setdefault((edge.source, edge.port), []).append(edge)
        ends.setdefault((edge.target, INPUT), []).append(edge)
    for (name, port), edges in ends.items():
        if len(edges) > PORT_LIMIT:
            message = f"port `{port}` of `{name}` has {len(edges)} edges; the limit is {PORT_LIMIT}"
            problems.add("link.too-many-edges", message, edges[PORT_LIMIT].location)


def _cycle(graph: _Graph) -> list[str]:
    """The nodes of one cycle, from the one that is declared first back to it; empty if there is
    none."""
    try:
        order(graph.roles, graph.edges)
    except CycleError as error:
        found: list[str] = error.args[1][1:]
        start = found.index(min(found, key=[*graph.roles].index))
        return [*found[start:], *found[: start + 1]]
    return []


def _edge_location(graph: _Graph, source: str, target: str) -> Location | None:
    return next(
        (edge.location for edge in graph.edges if (edge.source, edge.target) == (source, target)),
        None,
    )


def _check_starts(graph: _Graph, problems: Problems, open_start: bool) -> None:
    sources = graph.with_role("source")
    heads = [name for name in graph.roles if not graph.before(name)]
    if not sources and not open_start:
        hint = "add a node whose component is a source"
        problems.add("link.no-source", "the flow has no source", graph.flow_location, hint)
        return
    if not sources and len(heads) > 1:
        message = f"the flow has no source, and {quoted(heads)} all need input"
        problems.add(
            "link.open-ends", message, graph.flow_location, "connect them to one first node"
        )
        return
    reached = reachable(sources or heads, graph.after)
    for name in graph.roles:
        if name not in reached:
            message = f"no source leads to `{name}`"
            hint = f"add an edge that leads to `{name}`"
            problems.add("link.unreachable", message, graph.locations.get(name), hint)


def _check_finishes(graph: _Graph, problems: Problems, open_end: bool) -> None:
    """Checks that every output reaches a sink. A sink of dead letters does not count."""
    main = graph
    if any(edge.port == ERROR for edge in graph.edges):
        main = replace(graph, edges=[edge for edge in graph.edges if edge.port != ERROR])
    heads = [name for name in graph.roles if not graph.before(name)]
    reached = reachable(graph.with_role("source") or heads, main.after)
    ends = [name for name in graph.with_role("sink") if name in reached]
    if not ends and not open_end:
        hint = "add a node whose component is a sink"
        problems.add("link.no-sink", "the flow has no sink", graph.flow_location, hint)
        return
    if not ends:
        ends = [name for name in graph.roles if name in reached and not main.after(name)]
        if len(ends) > 1:
            message = f"the flow has no sink and several last nodes: {quoted(ends)}"
            hint = "connect them to one last node"
            problems.add("link.open-ends", message, graph.flow_location, hint)
            return
    sinks = [name for name, role in graph.roles.items() if role == "sink"]
    arriving = reachable([*ends, *sinks], main.before)
    for name in graph.roles:
        if name not in arriving:
            message = f"the outputs of `{name}` reach no sink"
            hint = f"add an edge from `{name}`"
            problems.add("link.dead-end", message, graph.locations.get(name), hint)


def _check_router_ports(
    flow: FlowRecord,
    nodes: Mapping[str, NodePlan | None],
    edges: Sequence[EdgePlan],
    problems: Problems,
) -> None:
    """Adds a problem for each port without an edge, and for unknown names in `ignored_ports`."""
    for name, record in flow.nodes.items():
        node = nodes[name]
        if node is None or (node.role != "router" and record.ignored_ports is None):
            continue
        own = f"flow.{flow.name}.nodes.{name}"
        ignored: Sequence[str] = NODE.value(record, "ignored_ports", own, problems) or ()
        ports = [port for port in node.ports if port != ERROR]
        _check_ignored(record, own, ports, ignored, problems)
        used = {edge.port for edge in edges if edge.source == name and edge.port != ERROR}
        is_open_end = len(ports) == 1 and not used
        # A misspelt port is reported elsewhere; the port that was meant need not be reported too.
        if node.role != "router" or is_open_end or not used <= {*ports}:
            continue
        for port in ports:
            if port not in used and port not in ignored:
                message = f"port `{port}` of router `{name}` has no edge"
                hint = f'connect `{name}:{port}`, or set `ignored_ports = ["{port}"]` on the node'
                problems.add("link.port-unconnected", message, record.location, hint)


def _check_ignored(
    record: NodeRecord, path: str, ports: Sequence[str], ignored: Sequence[str], problems: Problems
) -> None:
    for port in ignored:
        if port not in ports:
            message = f"`{record.name}` has no output port `{port}` to ignore"
            location = record.at("ignored_ports", f"{path}.ignored_ports")
            listing = f"its ports are {quoted(ports)}" if ports else "it has no output ports"
            problems.add("link.port-unknown", message, location, near(port, ports, listing))


def _check_requests(
    nodes: Mapping[str, NodePlan | None], edges: Sequence[EdgePlan], problems: Problems
) -> None:
    """Adds a problem for every `request` and every engine with an input that breaks the rules."""
    known = [node for node in nodes.values() if node is not None]
    sources = [node for node in known if _is_source(node)]
    engines = [node for node in known if _is_engine(node)]
    if not sources and not engines:
        return
    for extra in sources[1:]:
        message = f"`{extra.name}` is a second `request`, next to `{sources[0].name}`"
        hint = "a flow answers one request; remove one of them"
        problems.add("link.request-repeated", message, extra.location, hint)
    for extra in engines[1:]:
        message = f"`{extra.name}` is a second engine with an input, next to `{engines[0].name}`"
        hint = f"one engine answers a request: {_SHAPE}"
        problems.add("link.engine-repeated", message, extra.location, hint)
    if sources and not _reached(sources[0].name, edges) & {engine.name for engine in engines}:
        message = f"no engine answers the request of `{sources[0].name}`"
        problems.add("link.request-unanswered", message, sources[0].location, _engine_hint(known))
    for engine in engines:
        _check_engine_input(engine, sources, known, edges, problems)


def _check_engine_input(
    engine: NodePlan,
    requests: Sequence[NodePlan],
    known: Sequence[NodePlan],
    edges: Sequence[EdgePlan],
    problems: Problems,
) -> None:
    names = {node.name for node in requests}
    feeding = [
        node.name
        for node in known
        if node.role == "source" and engine.name in _reached(node.name, edges)
    ]
    others = [name for name in feeding if name not in names]
    if others or not feeding:
        sent = f"comes from {quoted(others)}" if others else "comes from nowhere"
        message = f"the input of engine `{engine.name}` {sent}, not from a `request`"
        hint = f"{_SHAPE}; an engine without an input uses its own `prompt`"
        problems.add("link.engine-input", message, engine.location, hint)


def _engine_hint(known: Sequence[NodePlan]) -> str:
    engines = [node.name for node in known if node.component.name.startswith("engine:")]
    if engines:
        return f"connect it to engine {quoted(engines)}: {_SHAPE}"
    return f"add an engine: {_SHAPE}"


def _reached(start: str, edges: Sequence[EdgePlan]) -> set[str]:
    """The nodes behind this one, without dead letters."""

    def after(name: str) -> list[str]:
        return [edge.target for edge in edges if edge.source == name and edge.port != ERROR]

    return reachable(after(start), after)


def _is_source(node: NodePlan) -> bool:
    if node.component.instance is not None:
        return is_instance(node.component.instance, RequestSource)
    return node.component.kind == "builtin" and node.component.name == _REQUEST


def _is_engine(node: NodePlan) -> bool:
    if node.component.instance is not None:
        return is_instance(node.component.instance, RequestProcessor)
    return node.role == "processor" and node.component.name.startswith("engine:")
