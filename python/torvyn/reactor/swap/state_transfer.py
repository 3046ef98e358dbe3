"""What becomes of the state of the old component."""

from __future__ import annotations

from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute, read_attribute
from torvyn._contract.roles import acknowledges
from torvyn.reactor.run.component_state import BYTES, decode, encode, has_state
from torvyn.reactor.runners import Runner
from torvyn.reactor.swap.refusals import state_lost
from torvyn.reactor.swap.swap_report import State

DISCARD = "discard the state: `discard_state=True`, `torvyn reload --discard-state`"


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
