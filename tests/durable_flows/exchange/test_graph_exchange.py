"""A durable flow gets another graph while it runs: only the segments that change are exchanged."""

from __future__ import annotations

import pytest
from durable_parts import check_account, wait_until
from exchanged_flow import Counted, ExchangedFlow, Tag
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import torvyn
from torvyn.errors import FlowError

LAW = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)


def run(changing: ExchangedFlow, *plans: object) -> torvyn.Flow:
    """Runs the first plan, changes to the others one after the other, and ends."""
    first, *others = plans
    flow = torvyn.Flow.from_plan(first)  # type: ignore[arg-type]
    flow.is_fresh = True
    flow.start()
    for plan in others:
        came = len(changing.sink.texts)
        wait_until(lambda came=came: len(changing.sink.texts) > came)  # type: ignore[misc]
        flow.swap_graph(plan, discard_state=False)  # type: ignore[arg-type]
    changing.source.is_stopped.set()
    assert flow.wait(30)
    return flow


@LAW
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_no_element_is_lost_or_repeated_when_graphs_change(seed: int, changes: int) -> None:
    changing = ExchangedFlow(seed)
    flow = run(changing, *(changing.plan() for _ in range(changes + 1)))

    changing.check()
    check_account(flow)


def test_components_that_stay_are_not_touched() -> None:
    changing = ExchangedFlow(1)
    old = changing.chain("count", disk=1)
    flow = run(changing, old, changing.chain("count", "a", disk=1), old)

    changing.check()
    assert flow.statistics.nodes["a"].received > 0
    assert flow.statistics.nodes["count"].received == len(changing.sink.texts)


def test_segments_that_do_not_change_are_not_stopped() -> None:
    changing = ExchangedFlow(2)
    flow = torvyn.Flow.from_plan(changing.chain("a", "count", disk=1)).start()
    wait_until(lambda: len(changing.sink.texts) > 10)
    report = flow.swap_graph(changing.chain("a", "count", "b", disk=1))
    flow.cancel()
    flow.wait()

    assert {*report.pauses_ms} == {"a:output->count (reader)", "count:output->out (reader)"}


def test_a_component_that_changes_with_the_graph_keeps_its_state() -> None:
    changing = ExchangedFlow(3)
    flow = torvyn.Flow.from_plan(changing.chain("count", disk=0)).start()
    wait_until(lambda: len(changing.sink.texts) > 10)
    changing.parts["count"] = Counted("count", 0)
    flow.swap_graph(changing.chain("count", "a", disk=0), replaced=["count"])
    changing.source.is_stopped.set()
    flow.wait(20)

    changing.check()


def test_a_node_with_a_state_leaves_only_if_its_state_is_discarded() -> None:
    changing = ExchangedFlow(4)
    flow = torvyn.Flow.from_plan(changing.chain("count", "a")).start()
    wait_until(lambda: len(changing.sink.texts) > 10)
    with pytest.raises(FlowError, match="would lose its state") as refused:
        flow.swap_graph(changing.chain("a"))
    report = flow.swap_graph(changing.chain("a"), discard_state=True)
    changing.source.is_stopped.set()
    flow.wait(20)

    assert (refused.value.code, report.removed) == ("swap.state-lost", ("count",))
    assert [text.split()[0] for text in changing.sink.texts] == changing.source.sent


class Refusing(Tag):
    def init(self, config: str) -> None:
        raise ValueError("no")


class Choosy(Counted):
    def restore(self, state: int) -> None:
        raise ValueError("no")


@pytest.mark.parametrize("kind", [Refusing, Choosy])
def test_a_graph_that_cannot_be_prepared_changes_nothing(kind: type[Tag]) -> None:
    changing = ExchangedFlow(5)
    flow = torvyn.Flow.from_plan(changing.chain("count")).start()
    wait_until(lambda: len(changing.sink.texts) > 10)
    before = changing.parts["count"]
    changing.parts["count"] = kind("count", 0)
    with pytest.raises(FlowError):
        flow.swap_graph(changing.chain("count", "b"), replaced=["count"])
    changing.parts["count"] = before
    changing.source.is_stopped.set()
    flow.wait(20)

    changing.check()


def test_an_edge_that_is_gone_is_drained_first() -> None:
    changing = ExchangedFlow(6)
    flow = torvyn.Flow.from_plan(changing.chain("count", disk=1)).start()
    wait_until(lambda: len(changing.sink.texts) > 10)
    flow.swap_graph(changing.chain("count", disk=0))
    changing.source.is_stopped.set()
    flow.wait(20)

    (edge,) = [edge for edge in flow.statistics.edges if edge.target == "out"]
    assert (edge.carrier, edge.stored and edge.stored.elements) == ("memory", 0)
    assert edge.taken == len(changing.sink.texts)
    changing.check()


def test_a_flow_that_saves_nothing_is_refused() -> None:
    changing = ExchangedFlow(7)
    flow = torvyn.Flow(changing.source, changing.sink).start()
    with pytest.raises(FlowError) as refused:
        flow.swap_graph(changing.chain("a"))
    flow.cancel()

    assert refused.value.code == "swap.graph-changed"
