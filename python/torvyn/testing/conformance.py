"""Conformance: does a component keep the contract of its role? One check a role.

A check runs the component in real flows: to the end, cancelled half-way, started and stopped
without an element, and twice with one instance. It raises `AssertionError` with a sentence, and
gives what left the component.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torvyn.components.config import config_text
from torvyn.contract import ROLES, Aggregator, Component, Element, Filter, Processor, Router, Sink
from torvyn.contract import Source as SourceRole
from torvyn.errors import TorvynError
from torvyn.reactor import Flow
from torvyn.testing.components import CollectingSink, Item, ScriptedSource
from torvyn.testing.flow_run import FlowRun, idle, run_flow

SOME_TEXT: tuple[str, ...] = ("The", " quick", " fox", ".", " A", " dog", "!", "", " 1", " é")
"""What the checks send when they are not told what to send."""

Make = Callable[[], Component]


def check(component: type[Component] | Make, config: Any = "", **options: Any) -> list[Element]:
    """The check of the component's own role."""
    role = _make(component, config)().role
    return _CHECKS[role](component, config, **options)


def check_source(
    component: type[Component] | Make, config: Any = "", *, most: int = 100
) -> list[Element]:
    """A source: `pull` gives an element, an end or "nothing yet". Looks at the first `most`."""
    make = _make(component, config)
    _has_role(make, SourceRole)
    elements = _looked_at(make, lambda part: _source_flow(part, most))
    numbers = [element.sequence for element in elements]
    assert numbers == list(range(len(numbers))), "a source's elements are numbered from 0"
    return elements


def check_processor(
    component: type[Component] | Make, config: Any = "", *, inputs: Sequence[Item] = SOME_TEXT
) -> list[Element]:
    """A processor: every call gives none, one or many, and the rest leaves when the input ends."""
    make = _make(component, config)
    _has_role(make, Processor)
    return _looked_at(make, lambda part: _chain(inputs, part))


def check_filter(
    component: type[Component] | Make, config: Any = "", *, inputs: Sequence[Item] = SOME_TEXT
) -> list[Element]:
    """A filter: every call gives a bool or a verdict, and it makes no elements of its own. One that
    has a `flush` keeps text back and may give it out in pieces."""
    make = _make(component, config)
    _has_role(make, Filter)
    elements = _looked_at(make, lambda part: _chain(inputs, part))
    numbers = [element.sequence for element in elements]
    if getattr(type(make()), "flush", Filter.flush) is not Filter.flush:
        assert numbers == sorted(numbers), "a filter keeps the order"
        return elements
    assert len(elements) <= len(inputs), "a filter gives no more than it gets"
    assert numbers == sorted(set(numbers)), "a filter keeps the order and repeats nothing"
    return elements


def check_router(
    component: type[Component] | Make, config: Any = "", *, inputs: Sequence[Item] = SOME_TEXT
) -> list[Element]:
    """A router: every call names ports that it has declared. Gives what left by any of them."""
    make = _make(component, config)
    _has_role(make, Router)
    return _looked_at(make, lambda part: _router_flow(inputs, part))


def check_aggregator(
    component: type[Component] | Make, config: Any = "", *, inputs: Sequence[Item] = SOME_TEXT
) -> list[Element]:
    """An aggregator: every call gives none or one, `flush` the rest; outputs are numbered anew."""
    make = _make(component, config)
    _has_role(make, Aggregator)
    elements = _looked_at(make, lambda part: _chain(inputs, part))
    numbers = [element.sequence for element in elements]
    assert numbers == list(range(len(numbers))), "an aggregator's outputs are numbered from 0"
    return elements


def check_sink(
    component: type[Component] | Make,
    config: Any = "",
    *,
    inputs: Sequence[Item] = SOME_TEXT,
    timeout_s: float = 20.0,
) -> list[Element]:
    """A sink: every call gives nothing or a signal, and a pause is followed by `resume`."""
    make = _make(component, config)
    _has_role(make, Sink)
    _looked_at(make, lambda part: (Flow(ScriptedSource(inputs), part), []), timeout_s)
    return []


_CHECKS: dict[str, Callable[..., list[Element]]] = {
    "source": check_source,
    "processor": check_processor,
    "filter": check_filter,
    "router": check_router,
    "aggregator": check_aggregator,
    "sink": check_sink,
}


def _make(component: type[Component] | Make, config: Any) -> Make:
    if not isinstance(component, type):
        return component

    def make() -> Component:
        part: Component = component()
        part.config = config
        return part

    return make


def _has_role(make: Make, role: type[Component]) -> None:
    part = make()
    assert isinstance(part, role), f"{type(part).__name__} is not a {role.role}"
    assert ROLES[part.role] is role, f"`role` of {type(part).__name__} was changed"


Built = tuple[Flow, list[CollectingSink]]


def _chain(inputs: Sequence[Item], part: Component) -> Built:
    sink = CollectingSink()
    return Flow(ScriptedSource(inputs), part, sink), [sink]


def _source_flow(part: Component, most: int) -> Built:
    sink = CollectingSink()
    return Flow(part, sink).limit(most), [sink]


def _router_flow(inputs: Sequence[Item], part: Component) -> Built:
    flow = (
        Flow().add("source", ScriptedSource(inputs)).add("router", part).connect("source", "router")
    )
    sinks = []
    for port in _ports(part):
        sinks.append(CollectingSink())
        flow.add(f"to-{port}", sinks[-1]).connect(f"router:{port}", f"to-{port}")
    return flow, sinks


def _ports(part: Any) -> Iterable[str]:
    ports_for = getattr(part, "ports_for", None)
    ports = tuple(ports_for(part.config) if ports_for is not None else part.ports)
    assert ports, f"{type(part).__name__} declares no ports"
    return ports


def _looked_at(
    make: Make, build: Callable[[Component], Built], timeout_s: float = 20.0
) -> list[Element]:
    """Runs the component in every way a flow may end; gives what left it in a whole run."""
    flow, sinks = build(make())
    run = _run(flow, timeout_s)
    assert run.state == "completed", f"the flow ended as {run.state}"
    _nothing_is_left(run)
    _ends_without_an_element(make)
    _is_cancelled(build(make())[0])
    _starts_anew(make(), build)
    return [element for sink in sinks for element in sink.elements]


def _run(flow: Flow, timeout_s: float = 20.0) -> FlowRun:
    try:
        return run_flow(flow, timeout_s=timeout_s)
    except TorvynError as error:
        raise AssertionError(error.render()) from error


def _nothing_is_left(run: FlowRun) -> None:
    assert run.statistics.live == 0, f"{run.statistics.live} payloads are still alive"


def _ends_without_an_element(make: Make) -> None:
    """A flow may fail before its first element: `teardown` follows `init` at once."""
    part = make()
    if not any(map(_is_async, (part.init, part.teardown))):
        part.init(config_text(part.config))
        part.teardown()


def _is_cancelled(flow: Flow) -> None:
    flow.limit(3)
    with run_flow(flow, until=idle) as run:
        flow.cancel()
        run.close()
        assert run.state in ("cancelled", "completed"), f"a cancelled flow ended as {run.state}"
        _nothing_is_left(run)


def _starts_anew(part: Component, build: Callable[[Component], Built]) -> None:
    """`init` forgets what an earlier flow left in the component."""
    counts = []
    for _ in range(2):
        flow, _sinks = build(part)
        run = _run(flow)
        _nothing_is_left(run)
        counts.append(run.statistics.emitted)
    assert counts[0] == counts[1], (
        f"a second flow with the same component gave {counts[1]} elements, the first {counts[0]}: "
        "`init` must begin anew"
    )


def _is_async(method: Any) -> bool:
    return inspect.iscoroutinefunction(method)
