"""The parts of a flow that answers requests: `[request -> guards ->] engine -> guards -> response`.

The guards of the prompt and those of the answer become plans of their own, from which every request
makes new flows; the engine between them is opened once.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torvyn.errors import LinkError

if TYPE_CHECKING:
    from torvyn._link.plan import NodePlan, Plan

RESPONSE = "response"
REQUEST = "request"


@dataclass(frozen=True, slots=True)
class ServiceParts:
    engine: NodePlan
    answer: Plan
    """The nodes between the engine and the response; may be empty."""
    request: NodePlan | None = None
    prompt: Plan | None = None
    """The nodes between the request and the engine."""


def service_parts(plan: Plan) -> ServiceParts:
    """The parts of the plan; raises if it cannot answer requests."""
    sources = [node for node in plan.nodes if node.role == "source"]
    first = sources[0] if len(sources) == 1 else None
    if first is None or not (_is_engine(first) or first.component.name == REQUEST):
        expected = f"an engine such as `engine:local`, or `{REQUEST}` before an engine"
        raise unfit(plan, f"it needs exactly one source: {expected}")
    responses = [node for node in plan.nodes if node.component.name == RESPONSE]
    if len(responses) != 1:
        raise unfit(plan, f"it needs exactly one sink `{RESPONSE}`, and has {len(responses)}")
    end = responses[0].name
    if _is_engine(first):
        middle = {node.name for node in plan.nodes} - {first.name, end}
        return ServiceParts(
            first, _between(plan, first.name, end, middle, "the engine", "the response")
        )
    engine = next(node for node in plan.nodes if _is_engine(node))
    before = _ancestors(plan, engine.name) - {first.name}
    after = {node.name for node in plan.nodes} - before - {first.name, engine.name, end}
    prompt = _between(plan, first.name, engine.name, before, "the request", "the engine")
    answer = _between(plan, engine.name, end, after, "the engine", "the response")
    return ServiceParts(engine, answer, first, prompt)


def _between(
    plan: Plan, start: str, end: str, names: Set[str], start_name: str, end_name: str
) -> Plan:
    """The plan of the nodes between two others."""
    middle = plan.part(names)
    heads = {edge.target for edge in plan.edges if edge.source == start}
    tails = {edge.source for edge in plan.edges if edge.target == end}
    if len(heads) != 1 or len(tails) != 1:
        raise unfit(
            plan, f"{start_name} must have one outgoing edge, and {end_name} one incoming edge"
        )
    leaving = {edge.target for edge in plan.edges if edge.source in names} - names
    is_closed = not middle.nodes or (middle.head in heads and middle.tail in tails)
    if not is_closed or leaving - {end}:
        raise unfit(plan, f"the node before {end_name} must send only to {end_name}")
    return middle


def _ancestors(plan: Plan, name: str) -> set[str]:
    from torvyn._link.graph import reachable

    before = reachable([name], lambda to: [e.source for e in plan.edges if e.target == to])
    return before - {name}


def _is_engine(node: NodePlan) -> bool:
    return node.component.name.startswith("engine:")


def unfit(plan: Plan, why: str) -> LinkError:
    return LinkError(
        "engine.flow-unfit",
        f"flow `{plan.name}` cannot answer requests: {why}",
        hint="the shape is `[request -> guards ->] engine -> guards -> response`",
    )
