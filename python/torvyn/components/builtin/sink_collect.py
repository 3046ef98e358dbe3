"""`collect`: keeps the elements in memory, for tests, notebooks and programs.

Each flow starts with empty lists. With a `limit` it keeps the first elements and only counts the
others, so memory stays bounded.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn._contract.signals import End
from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="collect",
    role="sink",
    summary="Keeps the elements in memory, for tests, notebooks and programs.",
    options=(
        Option("limit", "integer", 0, "The number of elements to keep; 0 means all.", minimum=0),
    ),
    main="limit",
    example="""\
[flow.main.nodes.output]
component = "collect"
config = { limit = 1000 }
""",
)


class Collect(Sink):
    spec: ClassVar[Spec] = SPEC

    def __init__(self, config: Any = "") -> None:
        super().__init__(config)
        self.elements: list[Element] = []
        self.count = 0
        """The number of elements received, kept or not."""
        self.end: End | None = None
        """How the stream ended; None before."""
        self._limit = 0

    def init(self, config: str) -> None:
        self._limit = parse_config(SPEC, config)["limit"]
        self.elements, self.count, self.end = [], 0, None

    @property
    def texts(self) -> list[str]:
        """The kept elements as text."""
        return [element.text for element in self.elements]

    def push(self, element: Element) -> None:
        self.count += 1
        if not self._limit or len(self.elements) < self._limit:
            self.elements.append(element)

    def complete(self, end: End) -> None:
        self.end = end
