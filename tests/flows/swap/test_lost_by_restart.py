"""What waits on a durable edge that a new graph leaves out, as far as the figures tell."""

from __future__ import annotations

from dataclasses import replace

import torvyn
from torvyn._flow.plan_difference import lost_by_restart
from torvyn._flow.statistics import BrokerStatistics, EdgeStatistics
from torvyn._link.plan import Plan

EMPTY = EdgeStatistics("in", "output", "out", 5, 5, 0, 0, 0, 0, 1, 1, 0, carrier="disk")
WAITING = replace(EMPTY, taken=2, unread=3)


def plan(carrier: str) -> Plan:
    sink = torvyn.sink(lambda element: None)
    flow = torvyn.Flow(checkpoint_s=1.0).add("in", torvyn.source(["a"])).add("out", sink)
    return flow.connect("in", "out", carrier=carrier).plan


def broker(messages: int | None) -> EdgeStatistics:
    stored = BrokerStatistics(messages, 0, 1, 0, 0, 0, 0)
    return replace(EMPTY, carrier="nats", stored=stored)


def test_elements_that_wait_are_lost_if_the_edge_is_gone_or_carried_in_another_way() -> None:
    lost = ("3 elements that wait on the edge `in:output` to `out`",)

    assert lost_by_restart(plan("memory"), [WAITING], asks_broker=True) == lost
    assert lost_by_restart(plan("nats"), [WAITING], asks_broker=True) == lost
    assert lost_by_restart(plan("disk"), [WAITING], asks_broker=True) == ()


def test_an_edge_on_which_nothing_waits_may_go() -> None:
    assert lost_by_restart(plan("memory"), [EMPTY, broker(0)], asks_broker=True) == ()


def test_a_stream_that_may_have_batches_of_an_earlier_run_must_not_go() -> None:
    lost = ("what the broker may still have of the edge `in:output` to `out`",)

    for messages in (None, 2):
        found = [broker(messages)]
        assert lost_by_restart(plan("memory"), found, asks_broker=True) == lost
        assert lost_by_restart(plan("memory"), found, asks_broker=False) == ()


def test_edges_in_memory_are_empty_when_a_flow_is_at_rest() -> None:
    assert (
        lost_by_restart(plan("disk"), [replace(WAITING, carrier="memory")], asks_broker=True) == ()
    )
