"""Every ending accounts for every element, in every run mode."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from graphs import build, graphs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import sample

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import (
    Clock,
    CollectingSink,
    StallingSink,
    as_variant,
    check_account,
    idle,
    run_flow,
)

LAW = settings(
    max_examples=sample(8, full=40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
MODES = ("python", "thread", "async")
POLICIES = ("fail-fast", "skip", "dead-letter", "retry")


class Failing(torvyn.Processor):
    """Fails on every number that is listed; passes the others on."""

    def __init__(self, bad: frozenset[int]) -> None:
        super().__init__()
        self.bad = bad

    def process(self, element: torvyn.Element) -> torvyn.Element:
        if element.sequence in self.bad:
            raise torvyn.Unavailable("not now")
        return element


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@LAW
@given(graphs(), st.integers(0, 50))
def test_a_limit_delivers_every_pulled_element(graph, limit):
    flow, sinks = build(graph)
    sources = {f"n{name}" for name in range(len(graph.sources))}
    flow.limit(limit)
    run_flow(flow)

    # What a thread had pulled already when the limit was reached is counted, and goes nowhere.
    edges = [edge for edge in flow.statistics.edges if edge.source in sources]
    taken = {edge.source: edge.entered - edge.unread for edge in edges}
    assert sum(taken.values()) <= limit
    assert flow.state == "completed"
    check_account(flow.statistics)
    assert flow.statistics.emitted == sum(len(sink.texts) for sink in sinks.values())


@LAW
@given(st.integers(0, 30), st.integers(0, 40), st.sampled_from(MODES))
def test_a_reader_that_leaves_is_counted_to_the_element(read, made, mode):
    stage = as_variant(torvyn.processor(lambda element: element.text + "!"), mode)
    flow = torvyn.Flow(numbers(made), stage)
    got = [element.text for _, element in zip(range(read), flow, strict=False)]

    assert got == [f"{number}!" for number in range(min(read, made))]
    # `zip` asks the flow for one more element than it hands out when the range ends first.
    assert flow.statistics.emitted - len(got) in (0, 1)
    check_account(flow.statistics)


@LAW
@given(st.integers(0, 30), st.integers(0, 40), st.sampled_from(MODES))
def test_an_async_reader_that_leaves_is_counted_to_the_element(read, made, mode):
    stage = as_variant(torvyn.processor(lambda element: element.text + "!"), mode)
    flow = torvyn.Flow(numbers(made), stage)
    got = []

    async def main() -> None:
        reader = aiter(flow)
        while len(got) < read:
            try:
                got.append((await anext(reader)).text)
            except StopAsyncIteration:
                break
        await reader.aclose()

    asyncio.run(main())
    assert got == [f"{number}!" for number in range(min(read, made))]
    if got:
        assert flow.statistics.emitted == len(got)
        check_account(flow.statistics)


@LAW
@given(st.integers(1, 60), st.integers(0, 59), st.sampled_from(MODES), st.sampled_from(MODES))
def test_every_element_before_a_failure_reaches_the_sink(made, bad, stage_mode, sink_mode):
    sink = CollectingSink()
    flow = torvyn.Flow(
        numbers(made),
        as_variant(Failing(frozenset([bad])), stage_mode),
        as_variant(sink, sink_mode),
    )
    if bad < made:
        with pytest.raises(torvyn.Unavailable):
            flow.run()
        assert flow.state == "failed"
        assert flow.statistics.nodes["processor"].failed == 1
    else:
        flow.run()

    assert sink.texts == numbers(min(bad, made))
    assert flow.statistics.emitted == len(sink.texts)
    check_account(flow.statistics)


@LAW
@given(st.frozensets(st.integers(0, 30), max_size=8), st.sampled_from(MODES),
       st.sampled_from(POLICIES), st.sampled_from(["run", "iterate", "feed"]))  # fmt: skip
def test_policies_account_for_what_fails(bad, mode, policy, driver):
    letters = CollectingSink()
    rule = {
        "dead-letter": {"policy": "dead-letter", "to": "letters"},
        "retry": {"policy": "retry", "max": 1, "backoff": 0.0, "then": "skip"},
    }.get(policy, policy)
    flow = torvyn.Flow()
    if driver != "feed":
        flow.add("source", numbers(20))
    flow.add("stage", as_variant(Failing(bad), mode), on_error=rule)
    flow.add("last", torvyn.processor(lambda element: element.text))
    if policy == "dead-letter":
        flow.add("letters", letters)
    if driver != "feed":
        flow.connect("source", "stage")
    flow.connect("stage", "last")
    sink = CollectingSink()
    if driver == "run":
        flow.add("sink", sink).connect("last", "sink")
    good = [text for text in numbers(20) if int(text) not in bad]
    fails = policy == "fail-fast" and len(good) < 20
    got = drive(flow, driver, sink)

    first = min((number for number in bad if number < 20), default=20)
    assert got == (numbers(first) if fails else good)
    assert flow.state == ("failed" if fails else "completed")
    check_account(flow.statistics)
    assert flow.statistics.emitted == len(got) + len(letters.texts)
    if policy == "dead-letter":
        assert letters.texts == [text for text in numbers(20) if int(text) in bad]


def drive(flow: torvyn.Flow, driver: str, sink: CollectingSink) -> list[str]:
    got: list[str] = []
    try:
        if driver == "run":
            flow.run()
        elif driver == "iterate":
            got.extend(flow.text())
        else:
            feed_all(flow, got)
    except torvyn.Unavailable as error:
        got += [element.text for element in getattr(error, "ready", None) or ()]
    return sink.texts if driver == "run" else got


def feed_all(flow: torvyn.Flow, got: list[str]) -> None:
    for text in numbers(20):
        while True:
            try:
                got += [element.text for element in flow.feed(text)]
                break
            except FlowError as full:
                if full.code != "reactor.feed-full":
                    raise
                got += [element.text for element in full.ready]
            if flow.state in ("failed", "completed"):
                return
    got += [element.text for element in flow.finish()]
    while flow.state not in ("failed", "completed"):
        got += [element.text for element in flow.ready()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("driver", ["run", "iterate", "feed"])
def test_dead_letters_of_the_last_node_leave_the_good_stream_alone(mode, driver):
    letters = CollectingSink()
    flow = torvyn.Flow()
    rule = {"policy": "dead-letter", "to": "letters"}
    flow.add("stage", as_variant(Failing(frozenset([1])), mode), on_error=rule)
    flow.add("letters", letters)
    sink = CollectingSink()
    if driver != "feed":
        flow.add("source", numbers(3)).connect("source", "stage")
    if driver == "run":
        flow.add("sink", sink).connect("stage", "sink")
    got = drive_three(flow, driver, sink)

    assert (got, letters.texts, flow.state) == (["0", "2"], ["1"], "completed")
    assert flow.statistics.emitted == 3
    check_account(flow.statistics)


def drive_three(flow: torvyn.Flow, driver: str, sink: CollectingSink) -> list[str]:
    if driver != "feed":
        return drive(flow, driver, sink)
    got = [element.text for element in flow.feed(numbers(3))]
    got += [element.text for element in flow.finish()]
    while flow.state != "completed":
        got += [element.text for element in flow.ready()]
    return got


@LAW
@given(graphs(), st.integers(0, 30), st.sampled_from(["cancel", "drain", "interrupt"]))
def test_an_ending_at_any_time_is_accounted_for(graph, after, ending):
    flow, sinks = build(graph, lambda: StallingSink(after=after))
    run = run_flow(flow, until=idle)
    check_account(flow.statistics)
    getattr(flow, ending)()
    for sink in sinks.values():
        sink.release()
    run.go()

    check_account(flow.statistics)
    assert flow.statistics.emitted == sum(len(sink.texts) for sink in sinks.values())


@LAW
@given(graphs(), st.integers(0, 30))
def test_a_deadline_is_accounted_for(graph, after):
    clock = Clock()
    flow, sinks = build(graph, lambda: StallingSink(after=after), clock=clock, deadline_s=5.0)
    run = run_flow(flow, until=idle)
    if flow.state == "completed":
        return
    clock.advance(6.0)
    with pytest.raises(FlowError, match="did not finish within 5 s"):
        run.go()

    assert flow.state == "failed"
    check_account(flow.statistics)
    assert flow.statistics.emitted == sum(len(sink.texts) for sink in sinks.values())


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest", "error"])
@pytest.mark.parametrize("mode", ["python", "native"])
def test_a_queue_does_not_drop_because_the_source_has_its_turn_first(policy, mode):
    sink = CollectingSink()
    flow = torvyn.Flow()
    flow.add("source", numbers(5000))
    flow.add("stage", torvyn.filter(lambda element: True))
    flow.add("sink", as_variant(sink, mode))
    flow.connect("source", "stage", queue_depth=8, backpressure=policy)
    flow.connect("stage", "sink", queue_depth=8, backpressure=policy)
    flow.run()

    assert flow.statistics.dropped == 0
    assert sink.texts == numbers(5000)


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest"])
def test_a_queue_drops_when_its_consumer_stalls(policy):
    sink = StallingSink(after=3)
    flow = torvyn.Flow()
    flow.add("source", numbers(100)).add("sink", sink)
    flow.connect("source", "sink", queue_depth=8, backpressure=policy)
    run = run_flow(flow, until=idle)
    # Three taken, one in the sink's hand, eight in the queue.
    assert flow.statistics.edges[0].dropped == 100 - 4 - 8
    sink.release()
    run.go()

    kept = numbers(100)[:4] + (numbers(100)[92:] if policy == "drop-oldest" else numbers(100)[4:12])
    assert sink.texts == kept
    check_account(flow.statistics)


class PortRouter(torvyn.Router):
    ports = ("even", "odd", "rest")

    def route(self, element: torvyn.Element) -> list[str]:
        number = int(element.text)
        return ["rest"] if number > 5 else ["odd"] if number % 2 else ["even", "rest"]


def test_elements_for_an_ignored_port_are_counted():
    even, odd = CollectingSink(), CollectingSink()
    flow = torvyn.Flow()
    flow.add("source", numbers(10)).add("ways", PortRouter(), ignored_ports=["rest"])
    flow.add("even", even).add("odd", odd)
    flow.connect("source", "ways").connect("ways:even", "even").connect("ways:odd", "odd")
    flow.run()

    node = flow.statistics.nodes["ways"]
    assert (node.passed, node.filtered, node.ignored, node.emitted) == (6, 4, 7, 6)
    assert (even.texts, odd.texts) == (["0", "2", "4"], ["1", "3", "5"])
    check_account(flow.statistics)


@pytest.mark.parametrize("mode", MODES)
def test_outputs_of_a_generator_have_the_number_of_the_current_element(mode):
    def twice(element):
        yield element.text
        yield torvyn.Output(element.text + "b")

    outputs = [torvyn.Output(str(n), attributes={"choice": n}) for n in range(5)]
    flow = torvyn.Flow(outputs, as_variant(torvyn.processor(twice), mode))
    got = [(e.text, e.sequence, e.attributes.get("choice")) for e in flow]

    assert got == [(f"{n}{tail}", n, n) for n in range(5) for tail in ("", "b")]


def test_outputs_of_a_stream_have_the_number_of_the_current_element():
    async def twice(stream):
        async for element in stream:
            yield element.text
            yield element.text + "b"

    outputs = [torvyn.Output(str(n), attributes={"choice": n}) for n in range(5)]
    flow = torvyn.Flow(outputs, torvyn.stream(twice))
    got = [(e.text, e.sequence, e.attributes.get("choice")) for e in flow]

    assert got == [(f"{n}{tail}", n, n) for n in range(5) for tail in ("", "b")]


def test_a_none_in_an_iterable_is_an_error_with_its_position():
    flow = torvyn.Flow(["a", None, "b"])
    got = []
    with pytest.raises(torvyn.errors.TorvynError, match="None as item 1"):
        got.extend(flow.text())

    assert got == ["a"]
    assert flow.state == "failed"
    check_account(flow.statistics)


def test_a_limit_of_zero_means_no_elements():
    flow = torvyn.Flow(["a", "b"]).limit(0)

    assert list(flow) == []
    assert (flow.state, flow.statistics.produced) == ("completed", 0)


def test_parallel_branches_keep_what_precedes_a_failure():
    left, right = CollectingSink(), CollectingSink()
    flow = torvyn.Flow()
    flow.add("source", numbers(50))
    flow.add("stage", Failing(frozenset([20]))).add("left", left).add("right", right)
    flow.connect("source", "stage").connect("stage", "left").connect("source", "right")
    with pytest.raises(torvyn.Unavailable):
        flow.run()

    assert left.texts == numbers(20)
    # The other branch gets all that the source had sent when the failure stopped it.
    assert right.texts == numbers(flow.statistics.produced)
    assert Counter(right.texts)["20"] == 1
    check_account(flow.statistics)
