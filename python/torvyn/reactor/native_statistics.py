"""The native counters of a run as statistics, with names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from torvyn._contract.enums import FlowState, Role
from torvyn._link.plan import NodePlan, Plan
from torvyn.reactor.statistics import EdgeStatistics, NodeStatistics, Statistics

if TYPE_CHECKING:
    from torvyn._sandbox.component import GuestHealth
    from torvyn.components.connection import ConnectionStatus


class _LazyStatistics(Statistics):
    """Statistics whose `nodes` and `edges` are built at the first access, because most runs end and
    nothing reads them."""

    __slots__ = ("_name",)

    _name: Callable[[], tuple[dict[str, NodeStatistics], tuple[EdgeStatistics, ...]]] | None

    def __getattr__(self, attribute: str) -> Any:
        """Called for attributes that are not set."""
        if attribute not in ("nodes", "edges"):
            raise AttributeError(attribute)
        name = self._name
        # None: another thread has built them.
        if name is not None:
            nodes, edges = name()
            object.__setattr__(self, "nodes", nodes)
            object.__setattr__(self, "edges", edges)
            object.__setattr__(self, "_name", None)
        return object.__getattribute__(self, attribute)

    def __repr__(self) -> str:
        return repr(Statistics(**{each.name: getattr(self, each.name) for each in fields(self)}))


def from_native(
    plan: Plan,
    wiring: list[tuple[str, str, str]],
    raw: dict[str, Any],
    elapsed_s: float,
    guests: Mapping[str, GuestHealth],
    denied: Mapping[str, dict[str, int]],
    connections: Mapping[str, ConnectionStatus],
    usage: Mapping[str, tuple[int | None, float]],
) -> Statistics:
    """Names the native counters. `wiring` has the edges in native order; "" is the caller. `usage`
    has the measured CPU time and the delay by node."""

    def name() -> tuple[dict[str, NodeStatistics], tuple[EdgeStatistics, ...]]:
        pairs = zip(plan.nodes, raw["nodes"], strict=True)
        nodes = {
            node.name: _node(node, counters, guests, denied, connections, usage)
            for node, counters in pairs
        }
        nodes = _within_time(nodes, elapsed_s, {name for name in nodes if usage[name][0] is None})
        edges = tuple(
            EdgeStatistics(source=source, port=port, target=target, **counters)
            for (source, port, target), counters in zip(wiring, raw["edges"], strict=True)
        )
        return nodes, edges

    result, put = object.__new__(_LazyStatistics), object.__setattr__
    put(result, "flow", plan.name)
    put(result, "state", raw["state"])
    put(result, "elapsed_s", elapsed_s)
    put(result, "turns", raw["turns"])
    put(result, "_name", name)
    return result


def _node(
    node: NodePlan,
    counters: Mapping[str, Any],
    guests: Mapping[str, GuestHealth],
    denied: Mapping[str, dict[str, int]],
    connections: Mapping[str, ConnectionStatus],
    usage: Mapping[str, tuple[int | None, float]],
) -> NodeStatistics:
    counts = dict(counters)
    sampled_ns, calls = counts.pop("sampled_ns"), counts.pop("sampled_calls")
    cpu_ns, throttled_s = usage[node.name]
    if cpu_ns is None and calls:
        elements = counts["emitted" if node.role == Role.SOURCE else "received"]
        cpu_ns = int(sampled_ns * max(elements, calls) / calls)
    return NodeStatistics(
        name=node.name,
        role=node.role,
        unit=node.unit,
        mean_call_ns=sampled_ns / calls if calls else None,
        throttled_s=throttled_s,
        cpu_ns=cpu_ns,
        max_memory_bytes=node.max_memory_bytes,
        guest=guests.get(node.name),
        denied=denied.get(node.name, {}),
        connection=connections.get(node.name),
        **counts,
    )


def _within_time(
    nodes: dict[str, NodeStatistics], elapsed_s: float, inline: set[str]
) -> dict[str, NodeStatistics]:
    """Bounds the estimates of CPU time. A sampled call that lost its processor meanwhile counts for
    many. A node makes one call at a time, and those that run inline share a thread."""
    limit_ns = int(elapsed_s * 1e9)
    inline_ns = sum(node.cpu_ns or 0 for name, node in nodes.items() if name in inline)
    scale = min(1.0, limit_ns / inline_ns) if inline_ns else 1.0
    for name, node in nodes.items():
        cpu_ns = int((node.cpu_ns or 0) * (scale if name in inline else 1))
        if cpu_ns != (node.cpu_ns or 0) or cpu_ns > limit_ns:
            nodes[name] = replace(node, cpu_ns=min(cpu_ns, limit_ns))
    return nodes


def empty_statistics(plan: Plan, state: FlowState) -> Statistics:
    """The statistics of a flow that has not started."""
    zero = {each.name: 0 for each in fields(NodeStatistics) if each.type == "int"}
    nodes = {
        node.name: NodeStatistics(
            name=node.name,
            role=node.role,
            unit=node.unit,
            copies={},
            mean_call_ns=None,
            cpu_ns=None,
            guest=None,
            denied={},
            connection=None,
            counts={},
            **zero,
        )
        for node in plan.nodes
    }
    return Statistics(plan.name, state, 0.0, 0, nodes, ())
