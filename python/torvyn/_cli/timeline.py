"""The calls of a traced flow, grouped by element.

An element keeps its number from its source through filters, processors and routers; an aggregator
numbers its outputs from 0 again. So an element is named after the node that numbered it, such as
`source#7`. Where several streams join, elements with the same number are shown together: `a+b#7`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._link.plan import Plan

    RawCall = tuple[str, str, int, int, int, int, int]


@dataclass(slots=True)
class Call:
    node: str
    outcome: str
    start_ns: int
    """Since the first call of the trace."""
    duration_ns: int
    copied_bytes: int
    outputs: list[str] = field(default_factory=list)
    """The elements that an aggregator emitted in this call."""


@dataclass(slots=True)
class ElementTrace:
    name: str
    calls: list[Call] = field(default_factory=list)

    @property
    def start_ns(self) -> int:
        return self.calls[0].start_ns

    @property
    def end_ns(self) -> int:
        return max(call.start_ns + call.duration_ns for call in self.calls)

    @property
    def copied_bytes(self) -> int:
        return sum(call.copied_bytes for call in self.calls)

    def to_dict(self) -> dict[str, Any]:
        return {
            "element": self.name,
            "start_ns": self.start_ns,
            "duration_ns": self.end_ns - self.start_ns,
            "copied_bytes": self.copied_bytes,
            "calls": [
                {
                    "node": call.node,
                    "outcome": call.outcome,
                    "start_ns": call.start_ns,
                    "duration_ns": call.duration_ns,
                    "copied_bytes": call.copied_bytes,
                    "made": call.outputs,
                }
                for call in self.calls
            ],
        }


def timelines(flow: Flow) -> list[ElementTrace]:
    """The elements of a traced flow that has ended, in order of appearance."""
    recorded, _ = flow.take_trace()
    names = origins(flow.plan)
    elements: dict[str, ElementTrace] = {}
    copied: dict[str, int] = {}
    emitted: dict[str, int] = {}
    roles = {node.name: node.role for node in flow.plan.nodes}
    begin_ns = min((call[5] for call in recorded), default=0)
    for node, outcome, count, copied_bytes, sequence, start_ns, nanos in productive(flow, recorded):
        name = f"{names[node]}#{sequence}"
        element = elements.setdefault(name, ElementTrace(name))
        # The ledger's figure is a running sum.
        before, copied[node] = copied.get(node, 0), copied_bytes
        call = Call(node, outcome, start_ns - begin_ns, nanos, copied_bytes - before)
        if roles[node] == "aggregator":
            first = emitted.get(node, 0)
            emitted[node] = first + count
            call.outputs = [f"{node}#{number}" for number in range(first, first + count)]
        element.calls.append(call)
    return list(elements.values())


def productive(flow: Flow, recorded: Iterable[RawCall]) -> list[RawCall]:
    """The calls without empty pulls: of a source's pulls for one number, only the last emitted."""
    emitted = {
        name: node.emitted for name, node in flow.statistics.nodes.items() if node.role == "source"
    }
    calls: list[RawCall] = []
    seen: set[tuple[str, int]] = set()
    for call in reversed([*recorded]):
        node, sequence = call[0], call[4]
        if node in emitted:
            if sequence >= emitted[node] or (node, sequence) in seen:
                continue
            seen.add((node, sequence))
        calls.append(call)
    return calls[::-1]


def origins(plan: Plan) -> dict[str, str]:
    """For each node, the nodes that numbered the elements it receives."""
    numbered_by: dict[str, frozenset[str]] = {}
    for node in plan.nodes:
        sources = {edge.source for edge in plan.edges if edge.target == node.name}
        upstream = [
            frozenset((name,)) if plan.node(name).role == "aggregator" else numbered_by[name]
            for name in sources
        ]
        numbered_by[node.name] = frozenset().union(*upstream) or frozenset((node.name,))
    order = [node.name for node in plan.nodes]
    return {name: "+".join(sorted(nodes, key=order.index)) for name, nodes in numbered_by.items()}


def untraced_nodes(flow: Flow) -> list[str]:
    """Nodes that the trace cannot see: iterated sources and streams that do not run inline."""
    seen = {call[0] for call in flow.take_trace()[0]}
    facts = flow.statistics.nodes
    return [
        node.name
        for node in flow.plan.nodes
        if node.run != "inline"
        and node.name not in seen
        and (facts[node.name].received or facts[node.name].emitted)
    ]
