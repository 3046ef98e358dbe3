"""The rules of names and roles.

The graph is acyclic, every node is on a path from a source to a sink, each port of a router has an
edge or is in `ignored_ports`, and one `request` leads to one engine. The edges include those of
dead letters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from torvyn._contract.inspection import is_instance
from torvyn._contract.roles import RequestProcessor, RequestSource
from torvyn._link.component_traits import ERROR, INPUT
from torvyn._link.plan import EdgePlan, NodePlan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NODE, NodeRecord
from torvyn._manifest.schema import near
from torvyn.errors import Location, quoted

_SHAPE = "request -> guards -> engine -> guards -> response"
_REQUEST = "request"


def check_requests(
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
        problems.add("link.request-unanswered", message, sources[0].location, _hint(known))
    for engine in engines:
        _check_input(engine, sources, known, edges, problems)


def _check_input(
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


def _hint(known: Sequence[NodePlan]) -> str:
    engines = [node.name for node in known if node.component.name.startswith("engine:")]
    if engines:
        return f"connect it to engine {quoted(engines)}: {_SHAPE}"
    return f"add an engine: {_SHAPE}"


def _reached(start: str, edges: Sequence[EdgePlan]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in _after(waiting.pop(), edges):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def _after(name: str, edges: Sequence[EdgePlan]) -> Iterator[str]:
    return (edge.target for edge in edges if edge.source == name and edge.port != "error")


def _is_source(node: NodePlan) -> bool:
    if node.component.instance is not None:
        return is_instance(node.component.instance, RequestSource)
    return node.component.kind == "builtin" and node.component.name == _REQUEST


def _is_engine(node: NodePlan) -> bool:
    if node.component.instance is not None:
        return is_instance(node.component.instance, RequestProcessor)
    return node.role == "processor" and node.component.name.startswith("engine:")


def check_router_ports(
    nodes: Mapping[str, NodePlan | None],
    records: Mapping[str, NodeRecord],
    edges: Sequence[EdgePlan],
    path: str,
    problems: Problems,
) -> None:
    """Adds a problem for each port without an edge, and for unknown names in `ignored_ports`."""
    for name, record in records.items():
        node = nodes[name]
        if node is None or (node.role != "router" and record.ignored_ports is None):
            continue
        own = f"{path}.nodes.{name}"
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
            place = record.at("ignored_ports", f"{path}.ignored_ports")
            listing = f"its ports are {quoted(ports)}" if ports else "it has no output ports"
            problems.add("link.port-unknown", message, place, near(port, ports, listing))


PORT_LIMIT = 16


@dataclass(frozen=True, slots=True)
class Graph:
    """A flow as names and roles. A role is None when the node's component was not found."""

    roles: Mapping[str, str | None]
    edges: Sequence[EdgePlan]
    places: Mapping[str, Location | None]
    flow_place: Location | None = None
    hidden: frozenset[str] = frozenset()
    """Sinks that link added for dead letters; a flow needs another sink."""
    is_complete: bool = True
    """False when an edge is missing, so that reachability cannot be checked."""

    def after(self, name: str) -> list[str]:
        return [edge.target for edge in self.edges if edge.source == name]

    def before(self, name: str) -> list[str]:
        return [edge.source for edge in self.edges if edge.target == name]

    def with_role(self, role: str) -> list[str]:
        return [name for name, own in self.roles.items() if own == role and name not in self.hidden]


def order(names: Iterable[str], edges: Sequence[EdgePlan]) -> list[str]:
    """The names in topological order, without those on or behind a cycle."""
    waiting = dict.fromkeys(names, 0)
    after: dict[str, list[str]] = {}
    for edge in edges:
        waiting[edge.target] = waiting.get(edge.target, 0) + 1
        after.setdefault(edge.source, []).append(edge.target)
    ready = deque(name for name, count in waiting.items() if count == 0)
    done: list[str] = []
    while ready:
        name = ready.popleft()
        done.append(name)
        for target in after.get(name, ()):
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return done


def check_topology(graph: Graph, problems: Problems, *, open_start: bool, open_end: bool) -> None:
    """Adds a problem for every broken rule."""
    # Cached: a program that builds a thousand flows of one shape pays for one check.
    roles = tuple(graph.roles.items())
    ends = tuple([(edge.source, edge.port, edge.target) for edge in graph.edges])
    is_sound = graph.is_complete and _is_sound(roles, ends, graph.hidden, open_start, open_end)
    if not is_sound:
        _check(graph, problems, open_start=open_start, open_end=open_end)


@lru_cache
def _is_sound(
    roles: tuple[tuple[str, str | None], ...],
    ends: tuple[tuple[str, str, str], ...],
    hidden: frozenset[str],
    open_start: bool,
    open_end: bool,
) -> bool:
    problems = Problems()
    graph = Graph(dict(roles), [EdgePlan(*found) for found in ends], {}, hidden=hidden)
    _check(graph, problems, open_start=open_start, open_end=open_end)
    return not problems


def _check(graph: Graph, problems: Problems, *, open_start: bool, open_end: bool) -> None:
    if not graph.roles:
        hint = "add nodes, and edges between them"
        problems.add("link.no-source", "the flow has no nodes", graph.flow_place, hint)
        return
    _check_ends(graph, problems)
    _check_port_limits(graph, problems)
    cycle = find_cycle(graph)
    if cycle:
        way = " -> ".join(f"`{name}`" for name in cycle)
        place = _edge_place(graph, cycle[0], cycle[1])
        hint = "a flow cannot have a cycle; remove one of these edges"
        problems.add("link.cycle", f"the edges form a cycle: {way}", place, hint)
    elif graph.is_complete and None not in graph.roles.values():
        _check_starts(graph, problems, open_start)
        _check_finishes(graph, problems, open_end)


def _check_ends(graph: Graph, problems: Problems) -> None:
    for edge in graph.edges:
        if graph.roles.get(edge.target) == "source":
            message = f"`{edge.target}` is a source and has no input"
            problems.add("link.source-has-input", message, edge.location)
        if graph.roles.get(edge.source) == "sink" and edge.port != ERROR:
            message = f"`{edge.source}` is a sink and has no output"
            problems.add("link.sink-has-output", message, edge.location)


def _check_port_limits(graph: Graph, problems: Problems) -> None:
    ends: dict[tuple[str, str], list[EdgePlan]] = {}
    for edge in graph.edges:
        ends.setdefault((edge.source, edge.port), []).append(edge)
        ends.setdefault((edge.target, INPUT), []).append(edge)
    for (name, port), edges in ends.items():
        if len(edges) > PORT_LIMIT:
            message = f"port `{port}` of `{name}` has {len(edges)} edges; the limit is {PORT_LIMIT}"
            problems.add("link.too-many-edges", message, edges[PORT_LIMIT].location)


def find_cycle(graph: Graph) -> list[str]:
    """The nodes of one cycle, with the first repeated at the end; empty if there is no cycle."""
    left = set(graph.roles) - set(order(graph.roles, graph.edges))
    # Nodes behind a cycle are left over as well; going backwards from them leads into it.
    way: list[str] = []
    name = next((name for name in graph.roles if name in left), None)
    while name is not None and name not in way:
        way.append(name)
        name = next(before for before in graph.before(name) if before in left)
    if name is None:
        return []
    circle = way[way.index(name) :]
    circle.reverse()
    first = min(circle, key=list(graph.roles).index)
    turned = circle[circle.index(first) :] + circle[: circle.index(first)]
    return [*turned, first]


def _edge_place(graph: Graph, source: str, target: str) -> Location | None:
    return next(
        (edge.location for edge in graph.edges if (edge.source, edge.target) == (source, target)),
        None,
    )


def _check_starts(graph: Graph, problems: Problems, open_start: bool) -> None:
    sources = graph.with_role("source")
    heads = [name for name in graph.roles if not graph.before(name)]
    if not sources and not open_start:
        hint = "add a node whose component is a source"
        problems.add("link.no-source", "the flow has no source", graph.flow_place, hint)
        return
    if not sources and len(heads) > 1:
        message = f"the flow has no source, and {quoted(heads)} all need input"
        problems.add("link.open-ends", message, graph.flow_place, "connect them to one first node")
        return
    reached = reachable(sources or heads, graph.after)
    for name in graph.roles:
        if name not in reached:
            message = f"no source leads to `{name}`"
            hint = f"add an edge that leads to `{name}`"
            problems.add("link.unreachable", message, graph.places.get(name), hint)


def _check_finishes(graph: Graph, problems: Problems, open_end: bool) -> None:
    """Checks that every output reaches a sink. A sink of dead letters does not count."""
    main = graph
    if any(edge.port == ERROR for edge in graph.edges):
        main = replace(graph, edges=[edge for edge in graph.edges if edge.port != ERROR])
    heads = [name for name in graph.roles if not graph.before(name)]
    reached = reachable(graph.with_role("source") or heads, main.after)
    ends = [name for name in graph.with_role("sink") if name in reached]
    if not ends and not open_end:
        hint = "add a node whose component is a sink"
        problems.add("link.no-sink", "the flow has no sink", graph.flow_place, hint)
        return
    if not ends:
        ends = [name for name in graph.roles if name in reached and not main.after(name)]
        if len(ends) > 1:
            message = f"the flow has no sink and several last nodes: {quoted(ends)}"
            hint = "connect them to one last node"
            problems.add("link.open-ends", message, graph.flow_place, hint)
            return
    sinks = [name for name, role in graph.roles.items() if role == "sink"]
    arriving = reachable([*ends, *sinks], main.before)
    for name in graph.roles:
        if name not in arriving:
            message = f"the outputs of `{name}` reach no sink"
            hint = f"add an edge from `{name}`"
            problems.add("link.dead-end", message, graph.places.get(name), hint)


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
