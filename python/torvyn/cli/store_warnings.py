"""Warns of flows whose stored data is damaged. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torvyn._link.plan import Plan
    from torvyn.errors import Diagnostic


def store_warnings(*plans: Plan) -> list[Diagnostic]:
    """One warning per problem. A flow that runs is not looked into: it reports its losses."""
    return [warning for plan in plans if plan.checkpoint_s for warning in _warnings(plan)]


def _warnings(plan: Plan) -> list[Diagnostic]:
    from torvyn.durable import inspect_store
    from torvyn.errors import Diagnostic, Location
    from torvyn.reactor.run.stored_shape import state_path

    path = state_path(plan)
    report = inspect_store(path)
    if report.state not in ("damaged", "unreadable"):
        return []
    hint = "start the flow: it copies what is readable, and reports the rest as lost"
    where = Location(file=str(path))
    return [
        Diagnostic(
            "durable.damaged",
            f"the stored data of flow `{plan.name}` is {report.state}: {problem}",
            where,
            hint,
            severity="warning",
        )
        for problem in report.problems
    ]
