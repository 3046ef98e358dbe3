"""What identifies an element in every run of its flow: the epoch of the flow's store, and a number.

Flows with durable edges have it. A sink that stores it together with the element recognizes an
element that is delivered again after a crash.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torvyn.components.spec import Option
from torvyn.contract import Element
from torvyn.errors import Fatal

ONCE: Final = Option(
    "once",
    "boolean",
    False,
    "Store each element once, by its number in the flow. For a node with one input edge, behind an "
    'edge with `carrier = "disk"`.',
)


class ElementIdentity(NamedTuple):
    epoch: str
    sequence: int


def identity_of(element: Element) -> ElementIdentity:
    """Raises `Fatal` in a flow that does not number its elements across runs."""
    epoch = getattr(element.context, "epoch", "") or element.attributes.get("epoch")
    if not epoch:
        raise Fatal(
            "`once` needs elements that keep their numbers in every run",
            hint='set `carrier = "disk"` on an edge before this node, or use a key of your own',
        )
    return ElementIdentity(str(epoch), int(element.attributes.get("seq", element.sequence)))
