"""Laws of flows, over random graphs with random queues and stages of every kind."""

import threading
from collections import Counter, defaultdict

from graphs import build, expected, graphs, number_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import sample

from torvyn.errors import Internal
from torvyn.testing import CollectingSink, StallingSink, check_account, idle, run_flow

LAW = settings(
    max_examples=sample(8, full=60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


def assert_nothing_runs(before):
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name != "torvyn-loop"]


@LAW
@given(graphs())
def test_nothing_is_lost_or_repeated_under_block(graph):
    flow, sinks = build(graph)
    with run_flow(flow) as run:
        assert run.state == "completed"

    sent = expected(graph)
    for at, sink in sinks.items():
        assert Counter(sink.texts) == sent[at]
    check_account(flow.statistics)


@LAW
@given(graphs())
def test_every_path_keeps_its_order(graph):
    flow, sinks = build(graph)
    run_flow(flow)

    for sink in sinks.values():
        ways = defaultdict(list)
        for text in sink.texts:
            ways[(text[0], text.partition("/")[2])].append(number_of(text))
        for numbers in ways.values():
            # A filter joins two ways without a mark: then numbers come twice, and mix.
            assert sorted(numbers) == numbers or len(set(numbers)) < len(numbers)


@LAW
@given(graphs())
def test_memory_stays_within_the_queues(graph):
    flow, _ = build(graph)
    run_flow(flow)

    largest = max((len(text) for counter in expected(graph) for text in counter), default=0)
    planned = {(edge.source, edge.target): edge for edge in flow.plan.edges}
    for edge in flow.statistics.edges:
        plan = planned[edge.source, edge.target]
        assert edge.peak <= plan.depth
        assert edge.peak_bytes <= max(plan.bytes, largest)


@LAW
@given(graphs(), st.integers(0, 60))
def test_cancelling_anywhere_leaves_nothing_running(graph, after):
    before = set(threading.enumerate())
    flow, _ = build(graph, lambda: StallingSink(after=after))
    run = run_flow(flow, until=idle)
    if run.state != "completed":
        run.cancel()
        assert run.state == "cancelled"

    check_account(run.statistics)
    assert_nothing_runs(before)


@LAW
@given(graphs(), st.integers(0, 60))
def test_failing_anywhere_leaves_nothing_running(graph, at):
    class Failing(CollectingSink):
        def push(self, element):
            if len(self.elements) == at:
                raise Internal("here")
            return super().push(element)

    before = set(threading.enumerate())
    flow, sinks = build(graph, Failing)
    try:
        run_flow(flow)
    except Internal:
        assert flow.state == "failed"

    assert all(len(sink.elements) <= at for sink in sinks.values())
    check_account(flow.statistics)
    assert_nothing_runs(before)


@LAW
@given(graphs(), st.integers(0, 30))
def test_draining_anywhere_delivers_every_pulled_element(graph, after):
    flow, sinks = build(graph, lambda: StallingSink(after=after))
    run = run_flow(flow, until=idle)
    flow.drain()
    for sink in sinks.values():
        sink.release()
    run.go()

    assert run.state == "completed"
    assert run.statistics.dropped == 0
    check_account(run.statistics)


@LAW
@given(graphs(), st.integers(0, 30))
def test_a_flow_continues_after_an_interrupt_anywhere(graph, after):
    flow, sinks = build(graph, lambda: StallingSink(after=after))
    run = run_flow(flow, until=idle)
    flow.interrupt()
    for sink in sinks.values():
        sink.release()
    run.go()

    sent = expected(graph)
    for at, sink in sinks.items():
        assert not Counter(sink.texts) - sent[at]
    assert run.state == "completed"
    check_account(run.statistics)


@LAW
@given(graphs())
def test_workers_do_the_same_as_the_caller(graph):
    flow, sinks = build(graph)
    flow.start()
    assert flow.wait(20)

    sent = expected(graph)
    for at, sink in sinks.items():
        assert Counter(sink.texts) == sent[at]
    check_account(flow.statistics)
