"""Deep recursion in a guest in Python is an exception, not a trap."""

from __future__ import annotations

import torvyn
from torvyn.testing._sandbox_variant import as_guest


class Descends(torvyn.Processor):
    def init(self, config: str) -> None:
        self.seen = 0

    def process(self, element: torvyn.Element) -> str:
        self.seen += 1
        return f"{self.seen} {self.down(int(element.text))}"

    def down(self, depth: int) -> int:
        return depth and self.down(depth - 1)


def test_deep_recursion_is_an_exception_and_keeps_the_state() -> None:
    flow = torvyn.Flow(["1", "100000", "2"], as_guest(Descends()), on_error="skip")

    assert list(flow.text()) == ["1 0", "3 0"]
    health = next(node.guest for node in flow.statistics.nodes.values() if node.guest)
    assert (health.traps, health.state_lost) == (0, 0)
