"""A sink that stores each element once needs them in the order of their numbers."""

from __future__ import annotations

import pytest

import torvyn
from torvyn.components import SQLiteSink as SQLite
from torvyn.errors import LinkError


def flow(*orders: str, **config: object) -> torvyn.Flow:
    """A chain of `disk` edges with these orders, and a sink behind a node in memory."""
    made = torvyn.Flow(name="main").add("n0", ["{}"])
    for at, order in enumerate(orders, 1):
        made.add(f"n{at}", torvyn.processor(lambda element: element.text))
        made.connect(f"n{at - 1}", f"n{at}", carrier="disk", order=order)
    made.add("out", SQLite({"path": "rows.db", **config}))
    return made.connect(f"n{len(orders)}", "out")


def test_it_is_refused_behind_an_edge_that_delivers_new_elements_first() -> None:
    with pytest.raises(LinkError, match="the older ones would not be stored") as caught:
        _ = flow("live-first", once=True).plan
    [problem] = caught.value.diagnostics
    assert problem.code == "link.bad-value"
    assert "`n0` to `n1`" in problem.message


@pytest.mark.parametrize(
    "made",
    [
        flow("oldest-first", once=True),
        flow("live-first", key=["device"]),
        # The last edge before it numbers what it gets, in the order in which it came.
        flow("live-first", "oldest-first", once=True),
    ],
)
def test_other_sinks_and_orders_are_linked(made: torvyn.Flow) -> None:
    assert made.plan.nodes
