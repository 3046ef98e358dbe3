"""The health of flows that stand still: which of them wait with good reason."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import torvyn
from torvyn._flow.health import FlowHealth, HealthCheck
from torvyn._io.connection import Connection

COUNT = 3
STALL_S = 60.0


class Three(torvyn.Source):
    """Sends three elements, then is idle; notes when it was asked for more."""

    def __init__(self) -> None:
        self.count = 0
        self.is_idle = threading.Event()

    def pull(self) -> str | torvyn.Signal | object:
        self.count += 1
        if self.count <= COUNT:
            return "x"
        self.is_idle.set()
        return torvyn.PENDING


class Absorbing(torvyn.Aggregator):
    def ingest(self, element: torvyn.Element) -> None:
        return None


class Hanging(torvyn.Sink):
    run = "thread"

    def __init__(self) -> None:
        self.is_called, self.may_return = threading.Event(), threading.Event()

    def push(self, element: torvyn.Element) -> None:
        self.is_called.set()
        self.may_return.wait()


def wait_until_still(flow: torvyn.Flow) -> None:
    """Waits until the second node has all elements, and has done with them what it does."""
    while True:
        statistics = flow.statistics
        _, node, *_ = statistics.nodes.values()
        first = statistics.edges[0]
        is_done = node.passed + node.absorbed + node.unread + first.unread == COUNT
        if is_done and first.entered == COUNT:
            return


@pytest.fixture
def health_after() -> Iterator[Callable[..., FlowHealth]]:
    """Runs a flow until its source is idle, and judges it again after some seconds."""
    flows: list[torvyn.Flow] = []

    def judge(seconds: float, *stages: object, max_silence_s: float | None = None) -> FlowHealth:
        source, now_s = Three(), [0.0]
        flow = torvyn.Flow(source, *stages, torvyn.sink(lambda element: None)).start()  # type: ignore[arg-type]
        flows.append(flow)
        source.is_idle.wait()
        wait_until_still(flow)
        check = HealthCheck(STALL_S, max_silence_s, lambda: now_s[0])
        check.check(flow.statistics)
        now_s[0] += seconds
        return check.check(flow.statistics)

    yield judge
    for flow in flows:
        flow.cancel()


def test_an_empty_flow_is_idle_however_long(health_after: Callable[..., FlowHealth]) -> None:
    health = health_after(10 * STALL_S)

    assert (health.state, health.is_healthy) == ("idle", True)


def test_elements_inside_an_aggregator_do_not_stall_a_flow(
    health_after: Callable[..., FlowHealth],
) -> None:
    assert health_after(10 * STALL_S, Absorbing()).state == "idle"


def test_elements_that_a_filter_holds_do_not_stall_a_flow(
    health_after: Callable[..., FlowHealth],
) -> None:
    holding = torvyn.filter(lambda element: torvyn.Verdict.hold())

    assert health_after(10 * STALL_S, holding).state == "idle"


def test_sources_may_have_a_limit_of_silence(health_after: Callable[..., FlowHealth]) -> None:
    health = health_after(100.0, max_silence_s=90.0)

    assert (health.state, health.node, health.is_healthy) == ("silent", "source", False)


def health_while_it_hangs(sink: Hanging, *pauses_s: float) -> list[FlowHealth]:
    """Judges a flow whose sink does not return after each of these pauses."""
    now_s = [0.0]
    flow = torvyn.Flow(Three(), sink).start()
    sink.is_called.wait()
    wait_until_still(flow)
    check = HealthCheck(STALL_S, clock=lambda: now_s[0])
    check.check(flow.statistics)
    states = []
    for pause_s in pauses_s:
        now_s[0] += pause_s
        states.append(check.check(flow.statistics))
    sink.may_return.set()
    flow.cancel()
    return states


def test_a_call_that_does_not_return_stalls_the_flow_and_is_named() -> None:
    states = health_while_it_hangs(Hanging(), STALL_S * 0.6, STALL_S * 0.6)

    assert [(health.state, health.node) for health in states] == [
        ("moving", "sink"),
        ("stalled", "sink"),
    ]


class Rejected(Hanging):
    def init(self, config: str) -> None:
        self.connection = Connection("uplink", "collector:443")

    def push(self, element: torvyn.Element) -> None:
        self.connection.rejected("401", "renew the token")
        super().push(element)


def test_a_flow_that_a_server_rejects_waits_and_is_healthy() -> None:
    (health,) = health_while_it_hangs(Rejected(), 10 * STALL_S)

    assert (health.state, health.is_healthy) == ("waiting", True)
    assert health.reason == "collector:443 rejects node `sink`: 401"


class Endless(torvyn.Source):
    def pull(self) -> str:
        return "x"


def test_a_stuck_sink_is_found_behind_a_queue_that_drops() -> None:
    sink, now_s = Hanging(), [0.0]
    flow = torvyn.Flow(Endless(), sink, backpressure="drop-oldest").start()
    sink.is_called.wait()
    check = HealthCheck(STALL_S, clock=lambda: now_s[0])
    # The first two looks may see the element that the sink has just taken.
    states = []
    for _ in range(4):
        produced = flow.statistics.produced
        while flow.statistics.produced == produced:
            pass
        states.append(check.check(flow.statistics).state)
        now_s[0] += STALL_S
    sink.may_return.set()
    flow.cancel()

    assert (states[0], states[-1]) == ("moving", "stalled")


def test_a_stuck_sink_is_found_beside_one_that_is_away() -> None:
    away, stuck, now_s = Rejected(), Hanging(), [0.0]
    flow = torvyn.Flow()
    for name, stage in (("source", Three()), ("away", away), ("stuck", stuck)):
        flow.add(name, stage)
    flow.connect("source", "away").connect("source", "stuck")
    flow.start()
    for sink in (away, stuck):
        sink.is_called.wait()
    check = HealthCheck(STALL_S, clock=lambda: now_s[0])
    check.check(flow.statistics)
    now_s[0] += STALL_S

    health = check.check(flow.statistics)

    for sink in (away, stuck):
        sink.may_return.set()
    flow.cancel()
    assert (health.state, health.node) == ("stalled", "stuck")


def test_what_waits_for_a_sink_that_is_away_is_not_held() -> None:
    (health,) = health_while_it_hangs(Rejected(), STALL_S / 2)

    assert health.held_s == 0.0


def test_how_long_a_node_holds_its_element_is_known_before_it_counts_as_stalled() -> None:
    first, second = health_while_it_hangs(Hanging(), 10.0, 10.0)

    assert (first.held_s, second.held_s) == (10.0, 20.0)


class Connecting(torvyn.Source):
    """Its first attempt to connect does not end: the thread hangs, or is gone."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()

    def init(self, config: str) -> None:
        self.connection = Connection("meter", "plc:502")

    def pull(self) -> torvyn.Signal | object:
        self.is_asked.set()
        return torvyn.PENDING


@pytest.mark.parametrize(
    ("seconds", "is_lost", "state"),
    [(STALL_S / 2, False, "waiting"), (STALL_S, False, "stalled"), (STALL_S, True, "waiting")],
)
def test_a_first_attempt_that_does_not_end_is_no_lost_connection(
    seconds: float, is_lost: bool, state: str
) -> None:
    source, now_s = Connecting(), [0.0]
    flow = torvyn.Flow(source, torvyn.sink(lambda element: None)).start()
    source.is_asked.wait()
    if is_lost:
        source.connection.lost("refused")
    check = HealthCheck(STALL_S, clock=lambda: now_s[0])
    check.check(flow.statistics)
    now_s[0] += seconds

    health = check.check(flow.statistics)

    flow.cancel()
    assert (health.state, health.node) == (state, "source")
