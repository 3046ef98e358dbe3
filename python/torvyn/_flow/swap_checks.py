"""Whether a new component may take the place of the one that runs, and what becomes of the state.

A swap that is not possible raises why; the old component goes on in every case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torvyn._contract.enums import Role
from torvyn._contract.inspection import describe_error, has_attribute, read_attribute
from torvyn._contract.roles import Component, acknowledges
from torvyn._durable.checkpoint import BYTES, decode, encode, has_state
from torvyn._flow.runner import Runner
from torvyn._flow.swap_order import Refused, State
from torvyn._link.component_library import Library
from torvyn._link.defaults import defaults_of
from torvyn._link.node_linker import NodeLinker
from torvyn._link.plan import NodePlan, Plan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NodeRecord
from torvyn._manifest.settings import process_settings
from torvyn.errors import FlowError, LinkError, quoted


def link_node(plan: Plan, old: NodePlan, component: str | Component, config: Config) -> NodePlan:
    """The node with a new component. Limits and policies stay as they are."""
    if config is None and isinstance(component, str) and component == old.component.name:
        config = old.config
    problems = Problems()
    record = NodeRecord(name=old.name, component=component, config=config)
    has_input = old.role != "source"
    linker = NodeLinker(plan.name, Library(), defaults_of(process_settings()), problems)
    found = linker.link(record, old.on_error, has_input=has_input)
    if found is None or problems:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    linked = found.plan
    # A blocking component that has a thread keeps it.
    keeps_thread = linked.run == "inline" and old.run == "thread"
    return replace(
        old,
        role=linked.role,
        component=linked.component,
        config=linked.config,
        run="thread" if keeps_thread else linked.run,
        ports=linked.ports,
        inputs=linked.inputs,
        unit=linked.unit or old.unit,
        grants=linked.grants or old.grants,
    )


def check_fit(old: NodePlan, new: NodePlan) -> None:
    """Raises if the new component does not have the form of the old one."""
    if new.role != old.role:
        raise unfit(old, f"it is a {new.role}, and the node is a {old.role}")
    for kind, have, need in (("ports", new.ports, old.ports), ("inputs", new.inputs, old.inputs)):
        if have != need:
            what = f"its {kind} are {quoted(have) or 'none'}, and the node's are {quoted(need)}"
            raise unfit(old, what, "add or remove edges in the manifest, then restart the flow")
    if (new.key is None) != (old.key is None):
        raise unfit(old, "it must have one component per key, or none, as before")


def check_saved(old: Runner, new: Runner) -> None:
    """Raises if the new component does not fit into the checkpoints of a run that has some."""
    from torvyn._durable.checkpoint import needs_checkpoints, tell_saved

    tell_saved([new])
    if needs_checkpoints(old) != needs_checkpoints(new):
        what = "only one of them has a `snapshot`, and the flow saves its state"
        raise unfit(old.node, what, "define `snapshot` and `restore` on both, or on neither")


def check_component(old: Runner, new: Runner) -> None:
    """Raises for what can be told only from the components."""
    for runner in (old, new):
        if has_attribute(runner.component, "stream_function"):
            what = "a stream function reads one element ahead, so it is never between two elements"
            raise unfit(old.node, what, "write it as a processor or an aggregator")
    if acknowledges(old.component) != acknowledges(new.component):
        what = "one of them waits for acknowledgements, and the other does not"
        raise unfit(old.node, what, "restart the flow")


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


def plan_transfer(old: Runner, new: Runner, is_discarded: bool) -> State:
    """The state of the new component after the swap; raises if something would be lost."""
    if is_discarded:
        return "empty"
    if has_state(old.component):
        if not has_attribute(new.component, "restore"):
            hint = f"define `restore(state)` on the new component, or {DISCARD}"
            raise state_lost(old.node, "its state: the new component has no `restore`", hint)
        return "restored"
    if what := unsaved(old):
        raise state_lost(old.node, what, f"define `snapshot` and `restore` on it, or {DISCARD}")
    return "none"


def unsaved(old: Runner) -> str | None:
    """What a component without `snapshot` holds by its role."""
    if old.node.role == Role.SOURCE and not acknowledges(old.component):
        return "its position: it has no `snapshot`"
    if old.node.key is not None:
        return "the states of its keys: its component has no `snapshot`"
    # A native stage is exchanged when it holds nothing.
    is_native = read_attribute(old.component, "native_stage", None) is not None
    if old.node.role == Role.AGGREGATOR and not (is_native and old.node.run == "inline"):
        return "what it has collected: it has no `snapshot`"
    return None


def move_state(old: Runner, new: Runner, native_state: bytes | None) -> None:
    """Hands the state over as a checkpoint would: the two components share no object."""
    give_state(new, save_state(old, native_state))


def save_state(old: Runner, native_state: bytes | None) -> bytes | None:
    """The encoded state; None if there is none any more."""
    if native_state is not None:
        return BYTES + native_state
    state = old.component.snapshot()  # type: ignore[attr-defined]
    if state is None and old.guest is not None:
        return None  # A guest that has trapped: its state is lost already.
    return encode(old.node.name, state)


def give_state(new: Runner, state: bytes | None) -> None:
    if state is not None:
        new.component.restore(decode(state))  # type: ignore[attr-defined]


Config = str | Mapping[str, Any] | Sequence[Any] | None


DISCARD = "discard the state: `discard_state=True`, `torvyn reload --discard-state`"
