"""The rules of requests: one `request` leads to one engine, and nothing else leads there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torvyn.contract.inspection import is_instance
from torvyn.contract.request_roles import RequestProcessor, RequestSource
from torvyn.link.plan import EdgePlan, NodePlan
from torvyn.manifest.problems import Problems, quoted

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
