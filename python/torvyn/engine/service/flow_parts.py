"""The parts of a flow that answers requests: `[request -> guards ->] engine -> guards -> response`.

A served flow is cut open at its ends: the guards of the prompt and those of the answer are plans of
their own, made anew for every request, and the engine between them is opened once.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torvyn.errors import LinkError

if TYPE_CHECKING:
    from torvyn.link.plan import NodePlan, Plan

RESPONSE = "response"
REQUEST = "request"


@dataclass(frozen=True, slots=True)
class Parts:
    engine: NodePlan
    answer: Plan
    """What lies between the engine and the response; without nodes, nothing does."""
    request: NodePlan | None = None
    prompt: Plan | None = None
    """What lies between the request and the engine."""


def parts(plan: Plan) -> Parts:
    """The parts of the plan; raises when it is no service."""
    sources = [node for node in plan.nodes if node.role == "source"]
    first = sources[0] if len(sources) == 1 else None
    if first is None or not (_is_engine(first) or first.component.name == REQUEST):
        wanted = f"an engine such as `engine:local`, or a `{REQUEST}` in front of one"
        raise unfit(plan, f"it needs one source, and that {wanted}")
    responses = [node for node in plan.nodes if node.component.name == RESPONSE]
    if len(responses) != 1:
        raise unfit(plan, f"it needs one sink `{RESPONSE}`, and has {len(responses)}")
    end = responses[0].name
    if _is_engine(first):
        middle = {node.name for node in plan.nodes} - {first.name, end}
        return Parts(first, _between(plan, first.name, end, middle, "the engine", "the response"))
    engine = next(node for node in plan.nodes if _is_engine(node))
    before = _ancestors(plan, engine.name) - {first.name}
    after = {node.name for node in plan.nodes} - before - {first.name, engine.name, end}
    prompt = _between(plan, first.name, engine.name, before, "the request", "the engine")
    answer = _between(plan, engine.name, end, after, "the engine", "the response")
    return Parts(engine, answer, first, prompt)


def _between(
    plan: Plan, start: str, end: str, names: Set[str], start_name: str, end_name: str
) -> Plan:
    """The plan of the nodes between two others."""
    middle = plan.part(names)
    heads = {edge.target for edge in plan.edges if edge.source == start}
    tails = {edge.source for edge in plan.edges if edge.target == end}
    if len(heads) != 1 or len(tails) != 1:
        raise unfit(plan, f"one edge leaves {start_name}, and one reaches {end_name}")
    leaving = {edge.target for edge in plan.edges if edge.source in names} - names
    is_apart = not middle.nodes or (middle.head in heads and middle.tail in tails)
    if not is_apart or leaving - {end}:
        raise unfit(plan, f"the node before {end_name} sends to {end_name} alone")
    return middle


def _ancestors(plan: Plan, name: str) -> set[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        reached = waiting.pop()
        new = {edge.source for edge in plan.edges if edge.target == reached} - seen
        seen |= new
        waiting += new
    return seen


def _is_engine(node: NodePlan) -> bool:
    return node.component.name.startswith("engine:")


def unfit(plan: Plan, why: str) -> LinkError:
    return LinkError(
        "engine.flow-unfit",
        f"flow `{plan.name}` cannot answer requests: {why}",
        hint="[request -> guards ->] engine -> guards and other parts -> response",
    )
