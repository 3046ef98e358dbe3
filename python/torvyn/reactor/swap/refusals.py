"""Why a swap was not possible. The old component goes on in every case."""

from __future__ import annotations

from torvyn._contract.inspection import describe_error
from torvyn._link.plan import NodePlan
from torvyn.errors import FlowError
from torvyn.reactor.swap.swap_order import Refused


def _error(code: str, node: str, message: str, hint: str | None = None) -> FlowError:
    error = FlowError(code, message, hint=hint)
    error.node = node
    return error


def not_running(flow: str) -> FlowError:
    return FlowError(
        "swap.not-running",
        f"flow `{flow}` is not running: there is nothing to exchange",
        hint="change the component before you start the flow",
    )


def unknown_node(flow: str, node: str, hint: str | None) -> FlowError:
    return _error("swap.node-unknown", node, f"flow `{flow}` has no node `{node}`", hint)


def unfit(node: NodePlan, what: str, hint: str | None = None) -> FlowError:
    message = f"the new component does not fit into node `{node.name}`: {what}"
    return _error("swap.unfit", node.name, message, hint)


def state_lost(node: NodePlan, what: str, hint: str) -> FlowError:
    message = f"a swap of node `{node.name}` would lose {what}"
    return _error("swap.state-lost", node.name, message, hint)


def no_memory(node: NodePlan, needed: int, free: int) -> FlowError:
    message = (
        f"there is no memory for two versions of node `{node.name}`: the new one may use "
        f"{needed >> 20} MiB, and {max(free, 0) >> 20} MiB are left"
    )
    hint = "set `max_memory` of the node to what it needs, or give the process more memory"
    return _error("swap.no-memory", node.name, message, hint)


def refusal(flow: str, node: NodePlan, refused: Refused, timeout_s: float) -> FlowError:
    """The error for what the native core reported."""
    if refused.reason == "ended":
        message = f"node `{node.name}` of flow `{flow}` has ended"
        return _error("swap.ended", node.name, message, "there is nothing left to exchange")
    if refused.reason == "busy":
        return busy(node, refused.what, timeout_s)
    why = refused.what if refused.error is None else describe_error(refused.error)
    error = state_refused(node, why)
    error.__cause__ = refused.error
    return error


def state_refused(node: NodePlan, why: str) -> FlowError:
    message = f"node `{node.name}` keeps its old component: its state was not handed over: {why}"
    hint = "`restore` of the new component must accept what `snapshot` of the old one returns"
    return _error("swap.state-refused", node.name, message, hint)


def returned(node: str, why: str) -> FlowError:
    """The new component was exchanged, and has failed since."""
    message = f"node `{node}` is back at its old component: the new one failed: {why}"
    return _error("swap.returned", node, message, "mend the new component, then swap it again")


def busy(node: NodePlan, what: str, timeout_s: float) -> FlowError:
    message = f"node `{node.name}` was not free within {timeout_s:g} s: {what}"
    hint = "try again later, or give the swap more time with `timeout_s`"
    return _error("swap.busy", node.name, message, hint)
