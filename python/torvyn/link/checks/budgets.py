"""The budgets of a flow as a whole: memory and CPU time."""

from __future__ import annotations

from torvyn.contract.enums import Role
from torvyn.errors import Location
from torvyn.link.checks.memory import MiB, allowed_bytes
from torvyn.link.plan import Plan
from torvyn.manifest.problems import Problems


def check_budgets(plan: Plan, place: Location, problems: Problems) -> None:
    """Adds what does not fit together. `place` is that of the flow."""
    _check_memory(plan, place, problems)
    if plan.cpu_share is None and all(node.cpu_share is None for node in plan.nodes):
        return
    if plan.observability == "off":
        message = f"flow `{plan.name}` has a `cpu_share`, but its CPU time is not measured"
        hint = 'set `level = "production"` in `[observability]`'
        problems.add("link.bad-value", message, place, hint)
    sources = [node for node in plan.nodes if node.role == Role.SOURCE]
    for node in sources:
        if node.component.kind == "wasm":
            message = f"source `{node.name}` is sandboxed, and cannot be slowed down by `cpu_share`"
            hint = "use a source in Python; a limit of the process is `CPUQuota` of its service"
            problems.add("link.bad-value", message, node.location or place, hint)


def _check_memory(plan: Plan, place: Location, problems: Problems) -> None:
    limit_bytes, total = plan.max_memory_bytes, allowed_bytes(plan)
    if limit_bytes is None or total <= limit_bytes:
        return
    message = (
        f"the nodes and queues of flow `{plan.name}` may use {total / MiB:.4g} MiB, more than its "
        f"`max_memory` of {limit_bytes / MiB:.4g} MiB"
    )
    hint = "set `max_memory` on its nodes, and `queue_bytes`, so that they fit"
    problems.add("link.over-budget", message, place, hint)
