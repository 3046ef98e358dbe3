"""Flows on the workers: many at once, shares by weight, and a component that blocks its worker."""

import logging
import threading
from collections import Counter
from itertools import groupby

import pytest

import torvyn
from torvyn import PENDING
from torvyn._contract.signals import Pending
from torvyn.errors import Internal
from torvyn.testing import Clock, CollectingSink, CountingSource, ScriptedSource


def test_a_started_flow_runs_on_the_workers():
    threads = set()
    sink = torvyn.sink(lambda element: threads.add(threading.get_ident()))

    flow = torvyn.Flow(ScriptedSource("abc"), sink).start()

    assert flow.wait(20)
    assert flow.state == "completed"
    assert threads.isdisjoint({threading.get_ident()})


def test_a_started_flow_that_fails_raises_where_it_is_waited_for():
    def broken(element):
        raise Internal("no")

    flow = torvyn.Flow(ScriptedSource("a"), torvyn.sink(broken)).start()

    with pytest.raises(Internal, match="no"):
        flow.wait(20)


def test_a_started_flow_is_cancelled_from_another_thread():
    reached = threading.Event()
    sink = torvyn.sink(lambda element: reached.set())
    flow = torvyn.Flow(CountingSource(), sink).start()
    assert reached.wait(20)

    flow.cancel()

    assert flow.wait(20)
    assert flow.state == "cancelled"
    assert flow.statistics.live == 0


class Waiting(ScriptedSource):
    """Tells when it has nothing yet."""

    def __init__(self, items):
        super().__init__(items)
        self.waits = threading.Event()

    def pull(self):
        item = super().pull()
        if isinstance(item, Pending):
            self.waits.set()
        return item


def test_waiting_no_longer_than_asked():
    source = Waiting([PENDING])
    flow = torvyn.Flow(source, CollectingSink()).start()
    assert source.waits.wait(20)

    assert flow.wait(0) is False
    source.wake()
    assert flow.wait(20)


@pytest.mark.promise("edge.thousand-flows")
def test_a_thousand_flows_complete():
    sinks = [CollectingSink() for _ in range(1000)]
    flows = [torvyn.Flow(CountingSource(20), torvyn.filter(lambda e: True), s) for s in sinks]

    for flow in flows:
        flow.start()

    assert all(flow.wait(30) for flow in flows)
    assert all(len(sink.elements) == 20 for sink in sinks)
    assert sum(flow.statistics.live for flow in flows) == 0


def test_a_hundred_native_flows_complete():
    flows = []
    for _ in range(100):
        flow = torvyn.Flow().add("source", "scripted", config={"repeat": 50}).add("sink", "null")
        flow.add("sentence", "sentence").connect("source", "sentence").connect("sentence", "sink")
        flows.append(flow.start())

    assert all(flow.wait(30) for flow in flows)
    assert {flow.statistics.produced for flow in flows} == {20 * 50}


@pytest.mark.parametrize("run", ["thread", "async"])
def test_started_flows_with_stages_elsewhere_complete(run):
    async def later(element):
        return True

    class OnThread(torvyn.Filter):
        run = "thread"

        def evaluate(self, element):
            return True

    flows = []
    for _ in range(20):
        stage = OnThread() if run == "thread" else torvyn.filter(later)
        flows.append(torvyn.Flow(CountingSource(50), stage, CollectingSink()).start())

    assert all(flow.wait(30) for flow in flows)
    assert {flow.statistics.emitted for flow in flows} == {50}


class Racing(torvyn.Sink):
    """Counts; who reaches the goal notes how far the others are."""

    def __init__(self, goal=None, rivals=()):
        super().__init__()
        self.goal, self.rivals, self.count = goal, rivals, 0
        self.over = threading.Event()

    def push(self, element):
        self.count += 1
        if self.count == self.goal:
            self.behind = [rival.count for rival in self.rivals]
            self.over.set()


class Gated(CountingSource):
    """Has nothing before the gate is open."""

    def __init__(self, gate, count=None):
        super().__init__(count)
        self.gate = gate

    def pull(self):
        return super().pull() if self.gate.is_set() else PENDING


def begin(gate, sources):
    """Opens the gate of sources whose flows have started."""
    gate.set()
    for source in sources:
        source.wake()


@pytest.mark.promise("edge.critical-share")
@pytest.mark.parametrize(("priority", "low", "high"), [("critical", 3, 5), ("low", 0.35, 0.65)])
def test_shares_follow_the_weights(priority, low, high):
    gate = threading.Event()
    rivals = [Racing() for _ in range(4)]
    favourite = Racing(20_000, rivals)
    sources = [Gated(gate) for _ in range(5)]
    # The clock stands still: shares of elements, whatever else keeps the machine busy.
    clock, flows = Clock(), []
    for source, sink in zip(sources, [*rivals, favourite], strict=True):
        share = priority if sink is favourite else "normal"
        flows.append(torvyn.Flow(source, sink, priority=share, clock=clock).start())
    begin(gate, sources)
    assert favourite.over.wait(30)
    for flow in flows:
        flow.cancel()
    assert all(flow.wait(20) for flow in flows)

    share = favourite.goal / (sum(favourite.behind) / len(rivals))
    assert low <= share <= high


@pytest.mark.promise("edge.critical-share", "edge.yield-frequency")
@pytest.mark.parametrize("elements", [1, 8])
@pytest.mark.parametrize(("priority", "weight"), [("normal", 1), ("high", 2), ("critical", 4)])
def test_a_turn_has_the_elements_of_its_setting_times_the_weight(
    monkeypatch, elements, priority, weight
):
    monkeypatch.setenv("TORVYN_RUNTIME__TURN_ELEMENTS", str(elements))
    gate, clock, order, flows = threading.Event(), Clock(), [], []
    sources = [Gated(gate, 1000), Gated(gate, 1000)]
    for key, own in enumerate(("normal", priority)):
        sink = torvyn.sink(lambda element, key=key: order.append(key))
        flows.append(torvyn.Flow(sources[key], sink, priority=own, clock=clock).start())
    begin(gate, sources)
    assert all(flow.wait(20) for flow in flows)

    # While a flow is alone, first or last, its turns follow each other.
    turns = [(key, len(list(turn))) for key, turn in groupby(order)]
    sizes = [Counter(size for key, size in turns if key == each) for each in (0, 1)]
    assert [each.most_common(1)[0][0] for each in sizes] == [elements, weight * elements]


class Reports(logging.Handler):
    """Keeps what the reactor reports of one flow, and tells when it comes."""

    def __init__(self, flow):
        super().__init__()
        self.flow, self.texts, self.came = flow, [], threading.Event()

    def emit(self, record):
        if getattr(record, "flow", None) == self.flow:
            self.texts.append(record.getMessage())
            self.came.set()


@pytest.fixture
def reports():
    handler, logger = Reports("stuck"), logging.getLogger("torvyn.reactor")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_component_that_blocks_a_worker_gets_a_spare_one_and_a_warning(reports):
    release, done = threading.Event(), threading.Event()

    class Blocking(torvyn.Sink):
        def push(self, element):
            release.wait()

    blocked = torvyn.Flow(ScriptedSource("a"), Blocking(), name="stuck").start()
    other = torvyn.Flow(ScriptedSource("b"), torvyn.sink(lambda e: done.set())).start()
    # One flow of Python components runs at a time: this one needs the spare worker.
    assert done.wait(20)
    assert reports.came.wait(20)
    release.set()
    assert blocked.wait(20)
    assert other.wait(20)

    (text,) = reports.texts
    assert 'run = "thread"' in text
    assert "flow `stuck`" in text
    assert "in push" in text


def test_a_hand_driven_flow_on_the_workers_waits_for_the_hand():
    clock, got = Clock(), threading.Event()
    sink = torvyn.sink(lambda element: got.set())
    source = Waiting([PENDING.after(60), "a"])
    flow = torvyn.Flow(source, sink, clock=clock).start()
    assert source.waits.wait(20)
    assert not flow.wait(0)

    clock.advance(60)

    assert flow.wait(20)
    assert got.is_set()


def test_an_alarm_on_the_workers_goes_off_by_itself():
    flow = torvyn.Flow(ScriptedSource([PENDING.after(0.001), "a"]), CollectingSink()).start()

    assert flow.wait(20)
    assert flow.statistics.emitted == 1


def test_a_flow_is_waited_for_by_several_threads():
    source = Waiting([PENDING, "a"])
    flow = torvyn.Flow(source, CollectingSink()).start()
    assert source.waits.wait(20)
    seen = []
    waiters = [threading.Thread(target=lambda: seen.append(flow.wait(20))) for _ in range(4)]
    for waiter in waiters:
        waiter.start()

    source.wake()
    for waiter in waiters:
        waiter.join()

    assert seen == [True] * 4
