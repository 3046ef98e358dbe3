"""Error policies: what happens to an element whose call failed."""

import json

import pytest

import torvyn
from torvyn.errors import Fatal, Internal, InvalidInput, Unavailable
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, idle


class Failing(torvyn.Processor):
    """Fails on `bad` as often as told, with the error told."""

    def __init__(self, error, times=10**9):
        super().__init__()
        self.error, self.times, self.calls = error, times, 0

    def process(self, element):
        if element.text == "bad" and self.times > 0:
            self.calls += 1
            self.times -= 1
            raise self.error
        return element.text.upper()


SCRIPT = ("a", "bad", "c")


def run_with(run_flow, stage, on_error, **options):
    return run_flow(ScriptedSource(SCRIPT), stage, on_error=on_error, **options)


def test_fail_fast_is_the_default_and_names_node_and_element(run_flow):
    sink = CollectingSink()

    with pytest.raises(
        Unavailable, match="node `processor` failed in `process` on element 1: gone"
    ):
        run_flow(ScriptedSource(SCRIPT), Failing(Unavailable("gone")), sink)

    assert sink.end is None


def test_skip_leaves_the_element_out_and_counts_it(run_flow):
    run = run_with(run_flow, Failing(Internal("no")), "skip")

    assert run.texts == ["A", "C"]
    node = run.statistics.nodes["processor"]
    assert (node.errors, node.failed) == (1, 1)
    assert run.statistics.live == 0


def test_retry_tries_again_until_it_works(run_flow):
    stage = Failing(Unavailable("later"), times=2)

    run = run_with(run_flow, stage, {"policy": "retry", "max": 3, "backoff": 0})

    assert run.texts == ["A", "BAD", "C"]
    assert run.statistics.nodes["processor"].retried == 2


@pytest.mark.parametrize("variant", ["python", "thread", "async"])
def test_retries_wait_twice_as_long_each_time(run, clock, variant):
    stage = Failing(Unavailable("later"), times=3)
    policy = {"policy": "retry", "max": 3, "backoff": "100ms"}
    ran = run_with(run, stage, policy, clock=clock, variant=variant, until=idle)
    calls = [stage.calls]
    for wait_s in (0.09, 0.01, 0.19, 0.01, 0.39, 0.01):
        clock.advance(wait_s)
        calls.append(ran.go(until=idle) and stage.calls)

    assert calls == [1, 1, 2, 2, 3, 3, 3]
    assert ran.go().texts == ["A", "BAD", "C"]


def test_when_the_retries_are_used_up_the_flow_fails(run_flow):
    stage = Failing(Unavailable("away"))

    with pytest.raises(Unavailable, match="away"):
        run_with(run_flow, stage, {"policy": "retry", "max": 2, "backoff": 0})

    # Once, and two retries.
    assert stage.calls == 1 + 2


def test_after_the_last_retry_the_element_may_be_skipped(run_flow):
    stage = Failing(Unavailable("away"))

    run = run_with(run_flow, stage, {"policy": "retry", "max": 2, "backoff": 0, "then": "skip"})

    assert run.texts == ["A", "C"]
    assert stage.calls == 1 + 2
    assert run.statistics.nodes["processor"].failed == 1


def test_order_is_kept_while_an_element_waits_for_its_retry(run, clock):
    stage = Failing(Unavailable("later"), times=1)
    policy = {"policy": "retry", "max": 1, "backoff": "1s"}
    ran = run_with(run, stage, policy, clock=clock, until=idle)
    assert ran.texts == ["A"]

    clock.advance(1)

    assert ran.go().texts == ["A", "BAD", "C"]


def test_invalid_input_is_never_retried(run_flow):
    stage = Failing(InvalidInput("not a number"))

    run = run_with(run_flow, stage, {"policy": "retry", "max": 5, "backoff": 0, "then": "skip"})

    assert stage.calls == 1
    assert run.texts == ["A", "C"]
    assert run.statistics.nodes["processor"].retried == 0


@pytest.mark.parametrize(
    "on_error",
    ["skip", {"policy": "retry", "max": 5, "backoff": 0, "then": "skip"}],
    ids=["skip", "retry"],
)
def test_fatal_stops_the_flow_under_every_policy(run_flow, on_error):
    stage = Failing(Fatal("broken for good"))

    with pytest.raises(Fatal, match="broken for good"):
        run_with(run_flow, stage, on_error)

    assert stage.calls == 1


def letters_flow(stage, on_error, sink, letters):
    flow = torvyn.Flow()
    flow.add("source", ScriptedSource(SCRIPT)).add("work", stage, on_error=on_error)
    flow.add("sink", sink).add("letters", letters)
    return flow.connect("source", "work").connect("work", "sink")


def test_dead_letters_go_to_the_node_that_takes_them(run):
    sink, letters = CollectingSink(), CollectingSink()
    policy = {"policy": "dead-letter", "to": "letters"}

    ran = run(letters_flow(Failing(InvalidInput("no number")), policy, sink, letters))

    assert sink.texts == ["A", "C"]
    (letter,) = letters.elements
    assert letter.text == "bad"
    assert letter.sequence == 1
    assert "no number" in str(dict(letter.attributes))
    assert ran.statistics.nodes["work"].dead_lettered == 1
    assert ran.statistics.live == 0


def test_dead_letters_follow_the_last_retry(run):
    sink, letters, stage = CollectingSink(), CollectingSink(), Failing(Unavailable("away"))
    policy = {"policy": "retry", "max": 2, "backoff": 0, "then": "dead-letter", "to": "letters"}

    run(letters_flow(stage, policy, sink, letters))

    assert stage.calls == 1 + 2
    assert letters.texts == ["bad"]


def test_fatal_is_no_dead_letter(run):
    letters = CollectingSink()
    policy = {"policy": "dead-letter", "to": "letters"}

    with pytest.raises(Fatal):
        run(letters_flow(Failing(Fatal("over")), policy, CollectingSink(), letters))

    assert letters.elements == []


def test_dead_letters_go_to_a_file(run, tmp_path):
    path = tmp_path / "letters.txt"
    flow = torvyn.Flow()
    flow.add("source", ScriptedSource(SCRIPT))
    policy = {"policy": "dead-letter", "to": str(path)}
    flow.add("work", Failing(InvalidInput("no")), on_error=policy)
    flow.add("sink", "null").connect("source", "work").connect("work", "sink")

    run(flow)

    (letter,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert letter["data"] == "bad"
    assert letter["attributes"]["error"]["kind"] == "invalid-input"


def test_dead_letters_leave_from_a_stage_on_a_thread(run):
    class OnThread(Failing):
        run = "thread"

    sink, letters = CollectingSink(), CollectingSink()
    policy = {"policy": "dead-letter", "to": "letters"}

    run(letters_flow(OnThread(InvalidInput("no")), policy, sink, letters))

    assert (sink.texts, letters.texts) == (["A", "C"], ["bad"])


def test_a_source_may_be_retried(run_flow):
    source = ScriptedSource(["a", Unavailable("hiccup"), "b"])

    run = run_flow(source, on_error={"policy": "retry", "max": 1, "backoff": 0})

    assert run.texts == ["a", "b"]
    assert run.statistics.nodes["source"].retried == 1


def test_a_source_that_fails_stops_the_flow(run_flow):
    with pytest.raises(Unavailable, match="`source` failed in `pull`"):
        run_flow(ScriptedSource(["a", Unavailable("gone")]))


def test_a_sink_may_skip(run_flow):
    class Picky(CollectingSink):
        def push(self, element):
            if element.text == "bad":
                raise InvalidInput("no")
            return super().push(element)

    sink = Picky()
    run = run_flow(ScriptedSource(SCRIPT), sink, on_error="skip")

    assert sink.texts == ["a", "c"]
    assert run.statistics.live == 0


def test_a_filter_that_fails_with_held_elements_keeps_the_order(run_flow):
    def judge(element):
        if element.text == "bad":
            raise Internal("no")
        return torvyn.Verdict.HOLD if element.text == "a" else True

    assert run_with(run_flow, torvyn.filter(judge), "skip").texts == ["a", "c"]


def test_an_error_in_a_flush_fails_the_flow(run_flow):
    def flush():
        raise Internal("cannot finish")

    with pytest.raises(Internal, match="`aggregator` failed in `flush`: cannot finish"):
        run_flow(ScriptedSource("a"), torvyn.aggregator(lambda e: None, flush))


@pytest.mark.parametrize("on_error", ["fail-fast", "skip"])
def test_an_error_in_complete_fails_the_flow_under_every_policy(run_flow, on_error):
    class Broken(CollectingSink):
        def complete(self, end):
            raise Internal("cannot close")

    with pytest.raises(Internal, match="`sink` failed in `complete`: cannot close"):
        run_flow(ScriptedSource("a"), Broken(), on_error=on_error)


def test_a_generator_that_fails_half_way_keeps_what_it_gave(run):
    def process(element):
        yield element.text
        raise InvalidInput("the rest is missing")

    ran = run(ScriptedSource("ab"), torvyn.processor(process), on_error="skip")

    assert ran.texts == ["a", "b"]
    assert ran.statistics.nodes["processor"].failed == 2


@pytest.mark.parametrize("at", range(5))
def test_failing_at_any_element_leaves_nothing_alive(run_flow, at):
    def broken(element):
        if element.sequence == at:
            raise Internal("here")
        return True

    sink = CollectingSink()
    flow = torvyn.Flow(CountingSource(5), torvyn.filter(broken), sink)
    with pytest.raises(Internal):
        run_flow(flow)

    assert flow.statistics.live == 0
    assert len(sink.elements) <= at


@pytest.mark.parametrize("variant", ["python", "thread", "async"])
def test_a_source_waits_before_it_is_tried_again(run, clock, variant):
    source = ScriptedSource(["a", Unavailable("hiccup"), Unavailable("again"), "b"])
    policy = {"policy": "retry", "max": 2, "backoff": "1s"}
    ran = run(source, on_error=policy, clock=clock, variant=variant, until=idle)
    played = [source.sent]
    for wait_s in (0.9, 0.1, 1.9, 0.1):
        clock.advance(wait_s)
        ran.go(until=idle)
        played.append(source.sent)

    assert played == [2, 2, 3, 3, 4]
    assert ran.texts == ["a", "b"]


def test_what_is_skipped_is_told_with_its_node_and_element(run_flow, caplog):
    def odd(element):
        if element.sequence % 2:
            raise Internal("odd")
        return True

    with caplog.at_level("WARNING", logger="torvyn"):
        run_flow(ScriptedSource("abc"), torvyn.filter(odd), on_error="skip")

    told = [record.getMessage() for record in caplog.records]
    assert "node `filter` failed on element 1 (1 so far, policy `skip`): odd" in told
