"""Statistics: counted natively per flow, node and edge, and readable at any time."""

import json

import torvyn
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, StallingSink, idle


def test_a_flow_counts_what_was_produced_filtered_and_emitted(run_flow):
    run = run_flow(CountingSource(10), torvyn.filter(lambda e: int(e.text) % 2 == 0))

    statistics = run.statistics
    assert (statistics.produced, statistics.filtered, statistics.emitted) == (10, 5, 5)
    assert (statistics.dropped, statistics.errors, statistics.live) == (0, 0, 0)
    assert statistics.state == "completed"
    assert statistics.turns > 0


def test_a_node_counts_what_it_received_and_sent(run_flow):
    nodes = run_flow(CountingSource(10), torvyn.filter(lambda e: e.text != "3")).statistics.nodes

    assert [nodes[name].emitted for name in ("source", "filter")] == [10, 9]
    assert [nodes[name].received for name in ("filter", "sink")] == [10, 9]
    assert nodes["filter"].filtered == 1


def test_an_edge_counts_what_went_through_it(run_flow):
    statistics = run_flow(ScriptedSource(["ab", "cde"]), capacity=1).statistics

    (edge,) = statistics.edges
    assert (edge.source, edge.port, edge.target) == ("source", "output", "sink")
    assert (edge.entered, edge.taken, edge.depth, edge.bytes) == (2, 2, 0, 0)
    assert edge.peak == 1
    assert edge.peak_bytes == 3


def test_statistics_may_be_asked_while_the_flow_runs(run):
    ran = run(CountingSource(), StallingSink(after=5), capacity=4, until=idle)

    (edge,) = ran.statistics.edges
    assert ran.statistics.state == "running"
    assert (edge.entered, edge.taken, edge.depth) == (10, 6, 4)
    assert ran.statistics.live == 4


def test_statistics_before_the_start_are_nothing_yet():
    statistics = torvyn.Flow(CountingSource(3), CollectingSink()).statistics

    assert statistics.produced == statistics.emitted == statistics.turns == 0
    assert set(statistics.nodes) == {"source", "sink"}


def test_a_snapshot_does_not_change(run):
    source, sink = CountingSource(10), StallingSink(after=2)
    ran = run(source, sink, capacity=1, until=idle)
    before = ran.statistics
    sink.release()
    ran.go()

    assert before.emitted == 3
    assert ran.statistics.emitted == 10


def test_statistics_are_plain_data():
    flow = torvyn.Flow(CountingSource(3), CollectingSink())

    told = json.loads(json.dumps(flow.run().to_dict()))

    assert told["produced"] == told["emitted"] == 3
    assert told["nodes"]["source"]["emitted"] == 3


def test_a_flow_without_a_sink_counts_what_its_caller_got():
    flow = torvyn.Flow(CountingSource(7), torvyn.filter(lambda e: e.text != "0"))
    list(flow)

    assert flow.statistics.emitted == 6


def test_units_come_from_the_node_then_from_the_class():
    class Tokens(CountingSource):
        unit = "tokens"

    flow = torvyn.Flow().add("source", Tokens(1)).add("sink", CollectingSink(), unit="lines")
    flow.connect("source", "sink")

    nodes = flow.run().nodes
    assert (nodes["source"].unit, nodes["sink"].unit) == ("tokens", "lines")


def test_calls_are_timed_by_sampling():
    nodes = torvyn.Flow(CountingSource(10), CollectingSink()).run().nodes

    assert nodes["sink"].mean_call_ns > 0


def test_a_trace_has_every_call():
    flow = torvyn.Flow(CountingSource(3), torvyn.filter(lambda e: e.text != "1"), CollectingSink())
    flow.trace().run()

    calls, missed = flow.take_trace()

    assert missed == 0
    assert [c[1] for c in calls if c[0] == "filter"] == ["passed", "dropped", "passed"]
    assert sum(1 for call in calls if call[0] == "sink") == 2
    assert all(call[-1] >= 0 for call in calls)


def test_a_trace_is_bounded():
    flow = torvyn.Flow(CountingSource(100), CollectingSink())
    flow.trace(limit=10).run()

    calls, missed = flow.take_trace()

    assert len(calls) == 10
    assert missed > 0


def test_a_flow_tells_the_memory_it_takes(run):
    ran = run(CountingSource(), torvyn.filter(lambda e: True), StallingSink(after=0), until=idle)

    memory = ran.flow.memory()

    assert 0 < memory["state_bytes"] < 4096
    assert memory["queue_bytes"] > 0
