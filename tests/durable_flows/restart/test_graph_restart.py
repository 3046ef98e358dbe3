"""A durable flow gets another graph: it restarts from its checkpoint, in the same process."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from changing_flow import ChangingFlow, Counted, Tag
from durable_parts import check_account, wait_until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from versions import Versions

import torvyn
from torvyn import Element
from torvyn._link.plan import Plan
from torvyn.errors import FlowError

LAW = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)


def start(changing: ChangingFlow, plan: Plan) -> Versions:
    """Runs the plan until elements have come."""
    versions = Versions(plan, is_fresh=True).start()
    wait_for_elements(changing)
    return versions


def wait_for_elements(changing: ChangingFlow) -> None:
    came = len(changing.sink.texts)
    wait_until(lambda: len(changing.sink.texts) > came + 10)


def refused(versions: Versions, plan: Plan) -> list[str]:
    """Why the plan does not run now."""
    try:
        answer = versions.reload(plan)
    except FlowError as error:
        return [error.message]
    return [each["message"] for each in answer.get("errors", [])]


def finish(changing: ChangingFlow, versions: Versions) -> None:
    changing.source.is_stopped.set()
    assert versions.wait(30)


@LAW
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_no_element_is_lost_or_repeated_when_graphs_change(seed: int, changes: int) -> None:
    """Also if a graph is refused because elements wait on an edge that it leaves out."""
    changing = ChangingFlow(seed)
    versions = start(changing, changing.plan())
    for _ in range(changes):
        refusals = refused(versions, changing.plan())
        assert all("elements that wait on the edge" in each for each in refusals)
        wait_for_elements(changing)
    finish(changing, versions)

    changing.check()
    check_account(versions.flow)


def test_a_node_joins_and_leaves_again() -> None:
    changing = ChangingFlow(1)
    old, new = (changing.chain(*names, disk=0) for names in (["count"], ["count", "a"]))
    versions = start(changing, old)
    for plan in (new, old):
        assert versions.reload(plan)["restarted_ms"] > 0
        wait_for_elements(changing)
    finish(changing, versions)

    changing.check()
    tagged = ["a" in text.split() for text in changing.sink.texts]
    assert (tagged[0], any(tagged), tagged[-1]) == (False, True, False)


def test_a_component_that_changes_with_the_graph_keeps_its_state() -> None:
    changing = ChangingFlow(3)
    versions = start(changing, changing.chain("count", disk=0))
    changing.parts["count"] = Counted("count", 0)
    versions.reload(changing.chain("count", "a", disk=0))
    wait_for_elements(changing)
    finish(changing, versions)

    changing.check()


def test_a_node_with_a_state_leaves_only_if_its_state_is_discarded() -> None:
    changing = ChangingFlow(4)
    versions = start(changing, changing.chain("a", "count", disk=0))
    with pytest.raises(FlowError, match="would lose the state of node `count`") as refusal:
        versions.reload(changing.chain("a", disk=0))
    answer = versions.reload(changing.chain("a", disk=0), discard_state=True)
    wait_for_elements(changing)
    back = versions.reload(changing.chain("a", "count", disk=0))
    finish(changing, versions)

    assert refusal.value.code == "swap.graph-changed"
    assert answer["restarted_ms"] > 0 < back["restarted_ms"]
    assert [text.split()[0] for text in changing.sink.texts] == changing.source.sent


def test_a_new_graph_without_a_discarded_state_that_cannot_start_discards_nothing() -> None:
    changing = ChangingFlow(4)
    versions = start(changing, changing.chain("a", "count", disk=0))
    changing.parts["b"] = Refusing("b")
    answer = versions.reload(changing.chain("a", "b", disk=0), discard_state=True)
    wait_for_elements(changing)
    finish(changing, versions)

    assert answer["errors"][0]["code"] == "reactor.init-failed"
    changing.check()


class Stateless(torvyn.Source):
    def pull(self) -> object:
        return "1"


class Collector(torvyn.Aggregator):
    """Holds elements of which no checkpoint knows."""

    def ingest(self, element: Element) -> None:
        """Keeps it for ever."""


def test_what_a_node_holds_that_no_checkpoint_saves_is_not_lost_without_a_word() -> None:
    sink = ChangingFlow(0).sink
    flow = torvyn.Flow(checkpoint_s=0.02).add("numbers", Stateless()).add("hold", Collector())
    flow.connect("numbers", "hold").add("out", sink).connect("hold", "out")
    versions = Versions(flow.plan).start()
    wait_until(lambda: versions.flow.statistics.nodes["hold"].received > 0)
    more = flow.add("more", ChangingFlow(0).tap).connect("hold", "more")
    with pytest.raises(FlowError, match="of node `hold` what it has collected"):
        versions.reload(more.plan)
    versions.flow.cancel()


class Refusing(Tag):
    def init(self, config: str) -> None:
        raise ValueError("no")


class Failing(Tag):
    def process(self, element: Element) -> str:
        raise ValueError("no")


def choosy() -> Counted:
    """A new version of `Counted` that accepts no state."""

    def restore(self: Counted, state: int) -> None:
        raise ValueError("no")

    kind = type("Counted", (Counted,), {"restore": restore, "__module__": Counted.__module__})
    return kind("count", 0)  # type: ignore[no-any-return]


@pytest.mark.parametrize("part", ["init", "restore"])
def test_a_graph_that_cannot_start_brings_the_old_one_back(part: str) -> None:
    changing = ChangingFlow(5)
    versions = start(changing, changing.chain("count", disk=0))
    before = changing.parts["count"]
    if part == "init":
        changing.parts["b"] = Refusing("b")
    else:
        changing.parts["count"] = choosy()
    answer = versions.reload(changing.chain("count", "b", disk=0))
    changing.parts["count"] = before
    wait_for_elements(changing)
    finish(changing, versions)

    assert "no" in answer["errors"][0]["message"]
    changing.check()


def test_a_graph_that_fails_on_trial_brings_the_old_one_back() -> None:
    changing = ChangingFlow(5)
    versions = start(changing, changing.chain("count", disk=0))
    changing.parts["b"] = Failing("b")
    versions.reload(changing.chain("count", "b", disk=0))
    wait_for_elements(changing)
    finish(changing, versions)

    changing.check()


class Gate(torvyn.Sink):
    """Takes elements while it is open."""

    run = "thread"

    def __init__(self) -> None:
        super().__init__()
        self.is_open = threading.Event()
        self.texts: list[str] = []

    def push(self, element: Element) -> None:
        self.is_open.wait()
        self.texts.append(element.text)


def gated(source: torvyn.Source, gate: Gate, carrier: str) -> Plan:
    flow = torvyn.Flow(checkpoint_s=0.02).add("in", source).add("out", gate)
    return flow.connect("in", "out", carrier=carrier).plan


class Ten(torvyn.Source):
    """Sends ten numbers, and then nothing for as long as it is not stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.is_stopped = False

    def pull(self) -> object:
        if self.number == 10:
            return None if self.is_stopped else torvyn.PENDING.after(0.001)
        self.number += 1
        return str(self.number)

    def snapshot(self) -> int:
        return self.number

    def restore(self, state: int) -> None:
        self.number = state


def test_a_durable_edge_may_go_only_when_nothing_waits_there() -> None:
    source, gate = Ten(), Gate()
    new = torvyn.Flow(checkpoint_s=0.02).add("in", source).add("out", gate)
    new.add("pass", Tag("pass")).connect("in", "pass").connect("pass", "out")
    versions = Versions(gated(source, gate, "disk"), is_fresh=True).start()
    wait_until(lambda: versions.flow.statistics.edges[0].entered == 10)
    wait_until(lambda: versions.flow.statistics.edges[0].taken == 1)
    with pytest.raises(
        FlowError, match="lose 9 elements that wait on the edge `in:output` to `out`"
    ):
        versions.reload(new.plan)
    gate.is_open.set()
    wait_until(lambda: versions.flow.statistics.edges[0].unread == 0)
    answer = versions.reload(new.plan)
    source.is_stopped = True
    assert versions.wait(20)

    assert answer["restarted_ms"] > 0
    assert gate.texts == [str(number) for number in range(1, 11)]


def test_a_file_keeps_what_the_flow_has_written_before_the_restart(tmp_path: Path) -> None:
    """Also where the old graph is back."""
    source, file = Ten(), tmp_path / "out"

    def plan(*inner: torvyn.Processor) -> Plan:
        sink = torvyn.components.File({"path": str(file), "mode": "truncate"})
        flow = torvyn.Flow(checkpoint_s=0.02).add("in", source).add("out", sink)
        names = [each.tag for each in inner]
        for name, each in zip(names, inner, strict=True):
            flow.add(name, each)
        for ends in pairwise(["in", *names, "out"]):
            flow.connect(*ends)
        return flow.plan

    versions = Versions(plan(), is_fresh=True).start()
    wait_until(lambda: versions.flow.statistics.edges[0].taken == 10)
    assert versions.reload(plan(Tag("a")))["restarted_ms"] > 0
    assert versions.reload(plan(Tag("a"), Refusing("b")))["errors"]
    source.is_stopped = True
    assert versions.wait(20)

    assert file.read_text().split() == [str(number) for number in range(1, 11)]


def test_a_flow_that_saves_nothing_is_refused() -> None:
    changing = ChangingFlow(7)
    versions = Versions(torvyn.Flow(changing.source, changing.sink).plan).start()
    with pytest.raises(FlowError) as refusal:
        versions.reload(torvyn.Flow(changing.source, Tag("a"), changing.sink).plan)
    versions.flow.cancel()

    assert refusal.value.code == "swap.graph-changed"
