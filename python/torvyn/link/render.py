"""The Plan as text for people: nodes in the order in which they start, then edges, in columns."""

from __future__ import annotations

from collections.abc import Sequence

from torvyn.link.plan import EdgePlan, NodePlan, Plan
from torvyn.manifest.units import render_duration, render_size


def render_plan(plan: Plan) -> str:
    """The text of `torvyn link`, without secrets."""
    head = f"flow {plan.name}, priority {plan.priority}"
    if plan.deadline_s is not None:
        head += f", deadline {render_duration(plan.deadline_s)}"
    if plan.max_memory_bytes is not None:
        head += f", memory {render_size(plan.max_memory_bytes)}"
    if plan.cpu_share is not None:
        head += f", CPU share {plan.cpu_share:g}"
    lines = [head, *([f"  {plan.description}"] if plan.description else [])]
    lines += ["", "nodes", *columns([_node(plan, node) for node in plan.nodes])]
    if plan.edges:
        lines += ["", "edges", *columns([_edge(edge) for edge in plan.edges])]
    if plan.cluster is not None and plan.cluster.nats:
        lines += ["", "broker", f"  namespace  {plan.cluster.namespace or 'none'}"]
    return plan.redact("\n".join(lines) + "\n")


def _node(plan: Plan, node: NodePlan) -> tuple[str, ...]:
    source = "" if node.component.kind == "project" else f" ({node.component.kind})"
    # Redact before shortening: half of a secret must not be printed either.
    notes = [f"config {_short(plan.redact(node.config))}"] if node.config else []
    if node.role == "router":
        notes.append(f"ports {', '.join(node.ports)}")
    if node.cpu_share is not None:
        notes.append(f"CPU share {node.cpu_share:g}")
    if node.on_error.policy != "fail-fast":
        notes.append(f"on error {node.on_error.policy}")
    return (node.name, node.role, f"{node.component.name}{source}", node.run, "; ".join(notes))


def _edge(edge: EdgePlan) -> tuple[str, ...]:
    return (
        f"{edge.source}:{edge.port}",
        "->",
        edge.target if edge.input == "input" else f"{edge.target}:{edge.input}",
        f"{edge.depth} elements",
        render_size(edge.bytes),
        edge.backpressure,
    )


def _short(text: str, limit: int = 48) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= limit else f"{one_line[: limit - 3]}..."


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as indented lines with aligned cells."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
