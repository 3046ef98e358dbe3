"""The state of a component as it leaves one instance and enters another: in a checkpoint, or when a
new version takes its place.

A component takes part when it defines `snapshot()`, which returns bytes or a value that JSON can
hold, and `restore(state)`, which receives the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from torvyn._contract.inspection import has_attribute
from torvyn._contract.roles import Component
from torvyn.errors import ContractError

if TYPE_CHECKING:
    from torvyn._link.plan import NodePlan

BYTES: Final = b"b"
_JSON: Final = b"j"


def has_state(component: Component) -> bool:
    return has_attribute(component, "snapshot")


def component_name(node: NodePlan) -> str:
    """Whose state it is: that of another component does not fit."""
    return node.component.name or node.component.target


def encode(node: str, state: Any) -> bytes:
    if isinstance(state, (bytes, bytearray, memoryview)):
        return BYTES + bytes(state)
    try:
        return _JSON + json.dumps(state, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        message = f"`snapshot` of node `{node}` returned what JSON cannot hold: {error}"
        hint = "return bytes, or lists, dicts, strings, numbers, booleans and None"
        raise ContractError("contract.bad-snapshot", message, hint=hint) from error


def decode(state: bytes) -> Any:
    return state[1:] if state[:1] == BYTES else json.loads(state[1:])
