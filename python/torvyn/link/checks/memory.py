"""The memory that a flow may use: the budgets of its nodes and the capacities of its queues.

A sum of upper bounds, so a flow usually uses far less. What it must not be is more than there is:
then the kernel ends the process, not the node that used too much.
"""

from __future__ import annotations

from collections.abc import Sequence

from torvyn.errors import Diagnostic
from torvyn.link.plan import EdgePlan, Plan

MiB = 1024 * 1024
RUNTIME_BYTES = 48 * MiB
"""The process without any flow: Python, the native core and the libraries of connections."""


def allowed_bytes(plan: Plan) -> int:
    """The most that the nodes and queues of a flow may use."""
    budgets = sum(node.max_memory_bytes for node in plan.nodes)
    return budgets + sum(_memory_bytes(edge) for edge in plan.edges)


def _memory_bytes(edge: EdgePlan) -> int:
    """An edge that leaves the process has a queue at each of its ends."""
    return edge.bytes if edge.carrier == "memory" else 2 * edge.bytes


def memory_warning(plans: Sequence[Plan], limit_bytes: int) -> Diagnostic | None:
    """A warning if the flows of a process may use more than a control group allows it."""
    total, count = sum(map(allowed_bytes, plans)), sum(len(plan.nodes) for plan in plans)
    if total + RUNTIME_BYTES <= limit_bytes:
        return None
    edges = [edge for plan in plans for edge in plan.edges]
    queues = sum(map(_memory_bytes, edges))
    which = f"flow `{plans[0].name}`" if len(plans) == 1 else f"the {len(plans)} flows"
    fitting = (limit_bytes - RUNTIME_BYTES - queues) // count // MiB
    message = (
        f"the {count} nodes and {len(edges)} queues of {which} may use "
        f"{total // MiB} MiB, and the process itself about {RUNTIME_BYTES // MiB} MiB, but its "
        f"control group allows {limit_bytes // MiB} MiB"
    )
    smaller = (
        f"set `max_memory_per_component` of `[runtime]` to {fitting}MiB or less"
        if fitting > 0
        else "give the process more memory"
    )
    hint = f"{smaller}, or set `max_memory` on the nodes that need little"
    return Diagnostic("link.memory-limit", message, None, hint, "warning")
