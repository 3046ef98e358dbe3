"""From created to completed, cancelled or failed; what is initialised is torn down, last first."""

import logging
import pickle
import threading

import pytest

import torvyn
from torvyn.errors import FlowError, Internal
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, StallingSink, idle


class Noted:
    """Writes down what is done to it, and may be told to fail."""

    def __init__(self, name, log, fail_in=None):
        super().__init__()
        self.name, self.log, self.fail_in = name, log, fail_in

    def init(self, config):
        self.note("init")

    def teardown(self):
        self.note("teardown")

    def note(self, what):
        self.log.append(f"{self.name}.{what}")
        if self.fail_in == what:
            raise RuntimeError(f"{self.name} cannot {what}")


class NotedSource(Noted, torvyn.Source):
    def pull(self):
        return None


class NotedFilter(Noted, torvyn.Filter):
    def evaluate(self, element):
        return True


class NotedSink(Noted, torvyn.Sink):
    def push(self, element):
        return None


def noted(log, **fail_in):
    return (
        NotedSource("source", log, fail_in.get("source")),
        NotedFilter("filter", log, fail_in.get("filter")),
        NotedSink("sink", log, fail_in.get("sink")),
    )


@pytest.mark.promise("tokens.teardown")
def test_init_goes_down_the_stream_and_teardown_comes_back_up(run_flow):
    log = []

    run_flow(*noted(log))

    assert log[:3] == ["source.init", "filter.init", "sink.init"]
    assert log[3:] == ["sink.teardown", "filter.teardown", "source.teardown"]


@pytest.mark.promise("tokens.teardown")
def test_an_init_that_fails_undoes_what_was_initialised(run_flow):
    log = []

    with pytest.raises(
        FlowError, match="`sink` failed in `init`: RuntimeError: sink cannot"
    ) as caught:
        run_flow(*noted(log, sink="init"))

    assert caught.value.code == "reactor.init-failed"
    assert log[3:] == ["filter.teardown", "source.teardown"]


def test_a_flow_whose_init_fails_has_failed():
    flow = torvyn.Flow(*noted([], filter="init"))

    with pytest.raises(FlowError):
        flow.run()

    assert flow.state == "failed"
    assert flow.error is not None
    with pytest.raises(FlowError, match="cannot init"):
        flow.wait()


@pytest.mark.parametrize("at", ["source", "filter", "sink"])
def test_a_teardown_that_fails_is_reported_and_not_raised(run_flow, caplog, at):
    log = []

    with caplog.at_level(logging.WARNING, "torvyn"):
        run = run_flow(*noted(log, **{at: "teardown"}))

    assert run.state == "completed"
    assert log[3:] == ["sink.teardown", "filter.teardown", "source.teardown"]
    assert f"node `{at}` failed in `teardown`" in caplog.text
    assert f"{at} cannot teardown" in caplog.text


@pytest.mark.promise("tokens.teardown")
@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_teardown_follows_whatever_happened(run_flow, how):
    log = []
    source, stage, _ = noted(log)

    class Breaking(NotedSink):
        def push(self, element):
            raise Internal("no")

    sink = Breaking("sink", log) if how == "failed" else StallingSink()
    source.pull = iter(["a", "b", None]).__next__
    try:
        run = run_flow(source, stage, sink, until=idle)
        run.cancel()
        assert run.state == "cancelled"
    except Internal:
        assert how == "failed"

    assert log.count("filter.teardown") == log.count("source.teardown") == 1


def test_the_states_of_a_flow(run):
    sink = StallingSink(after=1)
    flow = torvyn.Flow(CountingSource(5), sink)
    states = [flow.state]
    _ = flow.plan
    states.append(flow.state)
    ran = run(flow, until=idle)
    states.append(flow.state)
    sink.release()
    ran.go()
    states.append(flow.state)

    assert states == ["created", "validated", "draining", "completed"]


def test_a_running_flow_runs_and_a_drained_one_drains(run):
    sink = StallingSink(after=1)
    ran = run(CountingSource(), sink, until=idle)
    assert ran.state == "running"

    ran.flow.drain()
    ran.go(until=idle)

    assert ran.state == "draining"


def test_a_flow_that_cannot_be_linked_has_not_started():
    flow = torvyn.Flow().add("lonely", torvyn.filter(lambda e: True)).add("other", CollectingSink())

    with pytest.raises(torvyn.TorvynError):
        flow.run()
    assert flow.state == "created"


def test_init_is_called_with_the_config_even_when_the_constructor_is_overridden(run_flow):
    class Configured(torvyn.Processor):
        def __init__(self):
            self.ready = False

        def init(self, config):
            self.ready = config

        def process(self, element):
            return repr(self.ready)

    assert run_flow(ScriptedSource("a"), Configured()).texts == ["''"]


def test_a_config_given_to_the_constructor_reaches_init(run_flow):
    class Suffix(torvyn.Processor):
        def init(self, config):
            self.suffix = config

        def process(self, element):
            return element.text + self.suffix

    assert run_flow(ScriptedSource("a"), Suffix("!")).texts == ["a!"]


def test_an_init_that_takes_too_long_is_a_timeout(run):
    release = threading.Event()

    class Slow(torvyn.Filter):
        run = "thread"

        def init(self, config):
            release.wait()

        def evaluate(self, element):
            return True

    flow = torvyn.Flow().add("source", ScriptedSource("a"))
    flow.add("slow", Slow(), init_timeout_s=0.05).add("sink", "null")
    flow.connect("source", "slow").connect("slow", "sink")

    with pytest.raises(FlowError, match=r"`slow` was not ready within 0.05 s") as caught:
        run(flow)
    release.set()
    assert caught.value.code == "reactor.init-timeout"


def test_an_async_init_that_takes_too_long_is_a_timeout():
    class Slow(torvyn.Filter):
        async def init(self, config):
            import asyncio

            await asyncio.Event().wait()

        async def evaluate(self, element):
            return True

    flow = torvyn.Flow().add("source", ScriptedSource("a"))
    flow.add("slow", Slow(), init_timeout_s=0.05).add("sink", "null")
    flow.connect("source", "slow").connect("slow", "sink")

    with pytest.raises(FlowError) as caught:
        flow.run()
    assert caught.value.code == "reactor.init-timeout"


def test_a_plan_of_named_components_survives_pickling():
    plan = torvyn.load("examples/token-streaming").plan("main")

    back = pickle.loads(pickle.dumps(plan))

    assert back == plan
    assert torvyn._flow.flow.Flow.from_plan(back).run().produced == 20


def test_a_flow_runs_once_whoever_starts_it():
    flow = torvyn.Flow(ScriptedSource("a"), CollectingSink())
    flow.run()

    for again in (flow.run, flow.start):
        with pytest.raises(FlowError) as caught:
            again()
        assert caught.value.code == "reactor.already-ran"


def test_building_on_a_flow_that_has_started_is_refused():
    flow = torvyn.Flow(ScriptedSource("a"), CollectingSink())
    flow.run()

    with pytest.raises(FlowError) as caught:
        flow.add("late", CollectingSink())
    assert caught.value.code == "reactor.already-ran"


def test_a_flow_is_not_driven_from_inside_its_own_component():
    def push(element):
        flow.run()

    flow = torvyn.Flow(ScriptedSource("a"), torvyn.sink(push))

    with pytest.raises(Internal, match="has been started"):
        flow.run()
    assert flow.state == "failed"
