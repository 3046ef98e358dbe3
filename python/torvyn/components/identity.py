"""What identifies an element in every run of its flow: the epoch of the flow's store, and a number.

Flows with durable edges have it. A sink that stores it together with the element recognizes an
element that is delivered again after a crash.

Several durable edges may lead to one sink. Each numbers its elements by itself, from its own origin
on: the numbers of one origin rise, and those of two origins come in any order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from torvyn._contract.element import Element
from torvyn.components.spec import Option
from torvyn.errors import Fatal

ONCE: Final = Option(
    "once",
    "boolean",
    False,
    "Store each element once, by its number in the flow. For a node with one input edge, behind an "
    'edge with `carrier = "disk"`.',
)


ORIGIN_SHIFT: Final = 48
"""The bits above are those of the edge that has numbered an element."""


class ElementIdentity(NamedTuple):
    epoch: str
    sequence: int

    @property
    def origin(self) -> str:
        """What its number belongs to: the epoch, and the edge unless it is the first one."""
        edge = self.sequence >> ORIGIN_SHIFT
        return f"{self.epoch}.{edge}" if edge else self.epoch


def identity_of(element: Element) -> ElementIdentity:
    """Raises `Fatal` in a flow that does not number its elements across runs."""
    epoch = element.context.epoch if element.context is not None else ""
    if not epoch:
        raise Fatal(
            "`once` needs elements that keep their numbers in every run",
            hint='set `carrier = "disk"` on an edge before this node, or use a key of your own',
        )
    return ElementIdentity(epoch, element.sequence)
