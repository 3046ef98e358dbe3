"""A flow that is cancelled while it starts ends as soon as it runs, with everything torn down."""

from __future__ import annotations

import torvyn


def test_cancelling_while_components_start_is_not_forgotten() -> None:
    told: list[str] = []

    class Source(torvyn.Source):
        def init(self, config: str) -> None:
            flow.cancel()

        def pull(self) -> str:
            told.append("pulled")
            return "x"

        def teardown(self) -> None:
            told.append("torn down")

    flow = torvyn.Flow(Source(), torvyn.sink(lambda element: None))

    flow.run()

    assert flow.state == "cancelled"
    assert told == ["torn down"]
