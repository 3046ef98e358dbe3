"""The counters of a flow whose graph has changed: what a node or an edge has counted under several
numbers is one account again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from torvyn._link.plan import EdgePlan, Plan

Wiring = list[tuple[str, str, str]]


def merge(plan: Plan, edges: Sequence[EdgePlan], raw: dict[str, Any]) -> tuple[Plan, Wiring]:
    """Merges the counters in place; returns the names that they have now. `plan` and `edges` have
    all nodes and edges that there have been."""
    names = [node.name for node in plan.nodes]
    raw["nodes"] = _merged(names, raw["nodes"])
    ends = [(edge.source, edge.port, edge.target, edge.input) for edge in edges]
    raw["edges"] = _merged(ends, raw["edges"])
    latest = {node.name: node for node in plan.nodes}
    known = list(latest.values())[: len(raw["nodes"])]
    wiring = [each[:3] for each in dict.fromkeys(ends)][: len(raw["edges"])]
    return replace(plan, nodes=tuple(known)), wiring


def _merged(keys: Sequence[Hashable], counters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[Hashable, dict[str, Any]] = {}
    # Those that join at this moment have counted nothing yet.
    for key, each in zip(keys, counters, strict=False):
        found[key] = _sum(found[key], each) if key in found else each
    return list(found.values())


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for name in one | other:
        old, new = one.get(name), other.get(name)
        if name == "counts" or old is None or new is None:
            total[name] = old if new is None else new
        elif isinstance(new, dict):
            total[name] = {key: old.get(key, 0) + new.get(key, 0) for key in old | new}
        else:
            total[name] = max(old, new) if name.startswith("peak") else old + new
    return total
