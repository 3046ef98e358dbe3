"""Checks that a component keeps its role, and that a flow counts every element once.

A check of a role runs the component in real flows: to the end, cancelled half-way, without an
element, and twice with one instance. It raises `AssertionError`, or returns what the component
emitted. The laws of the account hold in every snapshot of the statistics and for every ending.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torvyn._contract.config import init_argument
from torvyn._contract.element import Element
from torvyn._contract.roles import ROLES, Aggregator, Component, Filter, Processor, Router, Sink
from torvyn._contract.roles import Source as SourceRole
from torvyn._flow.flow import Flow
from torvyn._flow.statistics import EdgeStatistics, NodeStatistics, Statistics
from torvyn.components.config import config_text
from torvyn.errors import TorvynError
from torvyn.testing._components import CollectingSink, Item, ScriptedSource
from torvyn.testing._flow_run import FlowRun, idle, run_flow

_OUTCOMES = ("passed", "filtered", "failed", "dead_lettered", "absorbed", "unread")


def check_account(statistics: Statistics) -> None:
    """Raises `AssertionError` with every count that does not add up.

    Node: received = passed + filtered + failed + dead_lettered + absorbed + unread. A node receives
    what is taken from its input edges, and emits what enters its output edges.
    Edge: entered = taken + dropped + unread.
    After the flow has ended and its output was read, every buffer is released.
    """
    errors = [*_nodes(statistics), *_edges(statistics), *_ledger(statistics)]
    assert not errors, f"flow `{statistics.flow}` ({statistics.state}): " + "; ".join(errors)


def _nodes(statistics: Statistics) -> Iterator[str]:
    for node in statistics.nodes.values():
        total = sum(getattr(node, name) for name in _OUTCOMES)
        if node.received != total:
            counts = " + ".join(f"{getattr(node, name)} {name}" for name in _OUTCOMES)
            yield f"node `{node.name}` received {node.received}, not {counts}"
        if statistics.edges:
            yield from _ends(node, statistics.edges)


def _ends(node: NodeStatistics, edges: tuple[EdgeStatistics, ...]) -> Iterator[str]:
    taken = sum(edge.taken for edge in edges if edge.target == node.name)
    if taken != node.received:
        yield f"node `{node.name}` received {node.received}, but {taken} were taken from its edges"
    entered: dict[str, set[int]] = {}
    for edge in edges:
        if edge.source == node.name:
            entered.setdefault(edge.port, set()).add(edge.entered - edge.restored)
    for port, counts in entered.items():
        if len(counts) > 1:
            yield f"the edges of `{node.name}:{port}` received different counts: {sorted(counts)}"
    letters = entered.pop("error", None)
    # Without such an edge, dead letters are stored.
    if letters is not None and sum(letters) != node.dead_lettered:
        sent = sum(letters)
        yield f"node `{node.name}` sent {sent} dead letters, but counted {node.dead_lettered}"
    sent = sum(max(counts) for counts in entered.values())
    if sent != node.emitted:
        yield f"node `{node.name}` emitted {node.emitted}, but its edges received {sent}"


def _edges(statistics: Statistics) -> Iterator[str]:
    for edge in statistics.edges:
        if edge.entered != edge.taken + edge.dropped + edge.unread:
            yield (
                f"edge `{edge.source}:{edge.port} -> {edge.target}` received {edge.entered}, not"
                f" {edge.taken} taken + {edge.dropped} dropped + {edge.unread} unread"
            )


def _ledger(statistics: Statistics) -> Iterator[str]:
    has_ended = statistics.state in ("completed", "cancelled", "failed")
    if has_ended and not any(edge.depth for edge in statistics.edges):
        for node in statistics.nodes.values():
            live = node.allocations - node.releases
            if live or node.live_bytes or node.held_bytes:
                yield (
                    f"node `{node.name}` still has {live} buffers with {node.live_bytes} bytes,"
                    f" and holds {node.held_bytes} bytes"
                )


SAMPLE_INPUTS: tuple[str, ...] = ("The", " quick", " fox", ".", " A", " dog", "!", "", " 1", " é")
"""The default inputs of the checks."""

ComponentFactory = type[Component] | Callable[[], Component]


def check(component: ComponentFactory, config: Any = "", **options: Any) -> list[Element]:
    """Runs the check of the component's role."""
    role = _factory(component, config)().role
    return _CHECKS[role](component, config, **options)


def check_source(
    component: ComponentFactory, config: Any = "", *, max_elements: int = 100
) -> list[Element]:
    """A source: `pull` returns an element, an end or `PENDING`. Checks the first `max_elements`."""
    factory = _factory(component, config)
    _check_role(factory, SourceRole)
    elements = _run_all_ways(factory, lambda component: _source_flow(component, max_elements))
    numbers = [element.sequence for element in elements]
    assert numbers == list(range(len(numbers))), "a source must number its elements from 0"
    return elements


def check_processor(
    component: ComponentFactory,
    config: Any = "",
    *,
    inputs: Sequence[Item] = SAMPLE_INPUTS,
) -> list[Element]:
    """A processor: every call returns zero, one or many; `flush` returns the rest."""
    factory = _factory(component, config)
    _check_role(factory, Processor)
    return _run_all_ways(factory, lambda component: _chain(inputs, component))


def check_filter(
    component: ComponentFactory,
    config: Any = "",
    *,
    inputs: Sequence[Item] = SAMPLE_INPUTS,
) -> list[Element]:
    """A filter: every call returns a bool or a verdict, and it creates no elements. A filter with a
    `flush` buffers text and may emit it in pieces."""
    factory = _factory(component, config)
    _check_role(factory, Filter)
    elements = _run_all_ways(factory, lambda component: _chain(inputs, component))
    numbers = [element.sequence for element in elements]
    if getattr(type(factory()), "flush", Filter.flush) is not Filter.flush:
        assert numbers == sorted(numbers), "a filter must keep the order"
        return elements
    assert len(elements) <= len(inputs), "a filter must not emit more than it receives"
    assert numbers == sorted(set(numbers)), "a filter must keep the order and repeat nothing"
    return elements


def check_router(
    component: ComponentFactory,
    config: Any = "",
    *,
    inputs: Sequence[Item] = SAMPLE_INPUTS,
) -> list[Element]:
    """A router: every call returns ports that it declares. Returns what left by any of them."""
    factory = _factory(component, config)
    _check_role(factory, Router)
    return _run_all_ways(factory, lambda component: _router_flow(inputs, component))


def check_aggregator(
    component: ComponentFactory,
    config: Any = "",
    *,
    inputs: Sequence[Item] = SAMPLE_INPUTS,
) -> list[Element]:
    """An aggregator: `flush` returns the rest, and outputs are numbered from 0."""
    factory = _factory(component, config)
    _check_role(factory, Aggregator)
    elements = _run_all_ways(factory, lambda component: _chain(inputs, component))
    numbers = [element.sequence for element in elements]
    assert numbers == list(range(len(numbers))), "an aggregator must number its outputs from 0"
    return elements


def check_sink(
    component: ComponentFactory,
    config: Any = "",
    *,
    inputs: Sequence[Item] = SAMPLE_INPUTS,
    timeout_s: float = 20.0,
) -> list[Element]:
    """A sink: every call returns None or a signal, and `resume` follows each pause."""
    factory = _factory(component, config)
    _check_role(factory, Sink)
    _run_all_ways(
        factory, lambda component: (Flow(ScriptedSource(inputs), component), []), timeout_s
    )
    return []


_CHECKS: dict[str, Callable[..., list[Element]]] = {
    "source": check_source,
    "processor": check_processor,
    "filter": check_filter,
    "router": check_router,
    "aggregator": check_aggregator,
    "sink": check_sink,
}


def _factory(component: ComponentFactory, config: Any) -> ComponentFactory:
    if not isinstance(component, type):
        return component

    def create() -> Component:
        instance: Component = component()
        instance.config = config
        return instance

    return create


def _check_role(factory: ComponentFactory, role: type[Component]) -> None:
    component = factory()
    name = type(component).__name__
    assert isinstance(component, role), f"{name} is not a {role.role}"
    assert ROLES[component.role] is role, f"{name} must not change `role`"


FlowAndSinks = tuple[Flow, list[CollectingSink]]


def _chain(inputs: Sequence[Item], component: Component) -> FlowAndSinks:
    sink = CollectingSink()
    names = getattr(component, "inputs", ())
    if not names:
        return Flow(ScriptedSource(inputs), component, sink), [sink]
    flow = Flow().add("component", component).add("sink", sink).connect("component", "sink")
    for name in names:
        flow.add(f"source-{name}", ScriptedSource(inputs))
        flow.connect(f"source-{name}", f"component:{name}")
    return flow, [sink]


def _source_flow(component: Component, max_elements: int) -> FlowAndSinks:
    sink = CollectingSink()
    return Flow(component, sink).limit(max_elements), [sink]


def _router_flow(inputs: Sequence[Item], component: Component) -> FlowAndSinks:
    flow = (
        Flow()
        .add("source", ScriptedSource(inputs))
        .add("router", component)
        .connect("source", "router")
    )
    sinks = []
    for port in _ports(component):
        sinks.append(CollectingSink())
        flow.add(f"to-{port}", sinks[-1]).connect(f"router:{port}", f"to-{port}")
    return flow, sinks


def _ports(component: Any) -> Iterable[str]:
    ports_for = getattr(component, "ports_for", None)
    ports = tuple(ports_for(component.config) if ports_for is not None else component.ports)
    assert ports, f"{type(component).__name__} declares no ports"
    return ports


def _run_all_ways(
    factory: ComponentFactory, build: Callable[[Component], FlowAndSinks], timeout_s: float = 20.0
) -> list[Element]:
    """Runs the component in flows that end in different ways; returns the output of a whole run."""
    flow, sinks = build(factory())
    run = _run(flow, timeout_s)
    assert run.state == "completed", f"the flow ended as {run.state}"
    _check_released(run)
    _check_empty_run(factory)
    _check_cancel(build(factory())[0])
    _check_restart(factory(), build)
    return [element for sink in sinks for element in sink.elements]


def _run(flow: Flow, timeout_s: float = 20.0) -> FlowRun:
    try:
        return run_flow(flow, timeout_s=timeout_s)
    except TorvynError as error:
        raise AssertionError(error.render()) from error


def _check_released(run: FlowRun) -> None:
    assert run.statistics.live == 0, f"{run.statistics.live} payloads were not released"


def _check_empty_run(factory: ComponentFactory) -> None:
    """A flow may fail before its first element, so `teardown` may follow `init` at once."""
    component = factory()
    if not any(map(inspect.iscoroutinefunction, (component.init, component.teardown))):
        component.init(init_argument(component, config_text(component.config)))
        component.teardown()


def _check_cancel(flow: Flow) -> None:
    flow.limit(3)
    with run_flow(flow, until=idle) as run:
        flow.cancel()
        run.close()
        assert run.state in ("cancelled", "completed"), f"a cancelled flow ended as {run.state}"
        _check_released(run)


def _check_restart(component: Component, build: Callable[[Component], FlowAndSinks]) -> None:
    """`init` must reset the state that an earlier flow left in the component."""
    counts = []
    for _ in range(2):
        flow, _sinks = build(component)
        run = _run(flow)
        _check_released(run)
        counts.append(run.statistics.emitted)
    assert counts[0] == counts[1], (
        f"the first flow emitted {counts[0]} elements, the second with the same component "
        f"{counts[1]}: `init` must reset the state"
    )
