"""Which flows an answer can go through, which nodes are guards, and what their ends mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from torvyn._contract.signals import End
from torvyn.components import GUARDS
from torvyn.components.text_guard import Guard
from torvyn.errors import LinkError
from torvyn.protocol.frames import FinishReason

if TYPE_CHECKING:
    from torvyn._link.plan import NodePlan, Plan


def must_fit(plan: Plan) -> None:
    """Raises if the flow cannot be fed with an answer."""
    if plan.head is None or plan.tail is None:
        raise LinkError(
            "engine.flow-unfit",
            f"an answer cannot go through flow `{plan.name}`: it has its own source or sink",
            hint="remove them: the engine is the source, and the reader is the sink",
        )


def is_guard(node: NodePlan) -> bool:
    component = node.component
    if component.kind == "object":
        return isinstance(component.instance, Guard)
    return component.kind == "builtin" and component.name in GUARDS


def reason_of(end: End | None) -> FinishReason:
    """The finish reason of a choice whose flow ended by itself."""
    reason: Any = end.finish_reason if end is not None else "stop"
    return reason if reason in get_args(FinishReason) else "stop"
