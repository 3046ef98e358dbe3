"""Time limits hold for started flows, whatever a component does: they end for those who wait, and
say which component keeps which thread, and where."""

import asyncio
import contextlib
import dataclasses
import logging
import threading

import pytest
from blocking_components import RUNS, Blocker, part

import torvyn
from torvyn._flow import limits
from torvyn._flow.threads import run_on_spare_thread
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink

LIMIT_S = 0.1
DEADLINE_S = 1.0
"""Longer than a busy machine needs to start a flow: the component must be reached before it."""
ENOUGH_S = 20


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr(limits, "GRACE_S", 0.05)


@pytest.fixture
def blocker():
    """Makes blockers, and releases them when the test is over."""
    made = []

    def make(phase, how="lock"):
        made.append(Blocker(phase, how))
        return made[-1]

    yield make
    for one in made:
        one.released.set()


def limited(stage, *, sink=None, deadline_s=None, init_timeout_s=None, teardown_timeout_s=LIMIT_S):
    flow = torvyn.Flow(deadline_s=deadline_s).add("source", ["a"])
    options = {} if init_timeout_s is None else {"init_timeout_s": init_timeout_s}
    flow.add("stuck", stage, **options).connect("source", "stuck")
    if stage.role != "sink":
        flow.add("sink", sink or CollectingSink()).connect("stuck", "sink")
    plan = flow.plan
    runtime = dataclasses.replace(plan.runtime, teardown_timeout_s=teardown_timeout_s)
    return torvyn._flow.flow.Flow.from_plan(dataclasses.replace(plan, runtime=runtime))


@pytest.mark.parametrize(
    ("run", "how"), [("inline", "lock"), ("inline", "spin"), ("thread", "lock"), ("async", "spin")]
)
@pytest.mark.parametrize("phase", ["work", "flush", "complete"])
def test_a_deadline_ends_a_flow_whose_component_does_not_return(blocker, run, phase, how):
    stuck = blocker(phase, how)
    flow = limited(part(stuck, run), deadline_s=DEADLINE_S).start()

    with pytest.raises(FlowError, match="did not finish within 1 s: node `stuck` in") as caught:
        flow.wait(ENOUGH_S)

    assert caught.value.code == "reactor.deadline-exceeded"
    assert flow.state == flow.statistics.state == "failed"
    (note,) = caught.value.__notes__
    assert "in enter" in note
    assert "blocking_components.py" in note


@pytest.mark.parametrize("how", ["lock", "spin"])
@pytest.mark.parametrize("run", RUNS)
def test_a_start_ends_when_init_takes_too_long(blocker, run, how):
    torn = threading.Event()

    class First(torvyn.Source):
        def pull(self):
            return None

        def teardown(self):
            torn.set()

    stuck = blocker("init", how)
    flow = torvyn.Flow().add("first", First())
    flow.add("stuck", part(stuck, run), init_timeout_s=LIMIT_S).add("sink", CollectingSink())
    flow.connect("first", "stuck").connect("stuck", "sink")

    with pytest.raises(FlowError, match=r"`stuck` was not ready within 0\.1 s") as caught:
        flow.start()

    assert caught.value.code == "reactor.init-timeout"
    assert "in enter" in caught.value.__notes__[0]
    assert torn.wait(ENOUGH_S)
    assert flow.state == "failed"


@pytest.mark.parametrize("run", RUNS)
def test_a_teardown_that_does_not_return_is_left_behind(blocker, run, caplog):
    stuck = blocker("teardown")
    order = []

    class Noting(CollectingSink):
        def teardown(self):
            order.append("sink")

    class First(torvyn.Source):
        left = 1

        def pull(self):
            self.left -= 1
            return "a" if self.left >= 0 else None

        def teardown(self):
            order.append("source")

    flow = torvyn.Flow().add("source", First()).add("stuck", part(stuck, run)).add("sink", Noting())
    flow.connect("source", "stuck").connect("stuck", "sink")
    plan = flow.plan
    runtime = dataclasses.replace(plan.runtime, teardown_timeout_s=LIMIT_S)
    flow = torvyn._flow.flow.Flow.from_plan(dataclasses.replace(plan, runtime=runtime))

    with caplog.at_level(logging.WARNING, "torvyn"):
        assert flow.start().wait(ENOUGH_S)

    assert flow.state == "completed"
    assert order == ["sink", "source"]
    assert "node `stuck` did not end within 0.1 s and was abandoned" in caplog.text
    assert "in enter" in caplog.text


def test_the_other_components_of_an_abandoned_flow_are_torn_down(blocker):
    stuck, sink_torn = blocker("work"), threading.Event()

    class Noting(CollectingSink):
        def teardown(self):
            sink_torn.set()

    flow = limited(part(stuck, "inline"), sink=Noting(), deadline_s=DEADLINE_S).start()
    with pytest.raises(FlowError):
        flow.wait(ENOUGH_S)

    assert sink_torn.is_set()
    assert not stuck.torn.is_set()


def test_a_component_that_returns_after_all_is_not_called_again(blocker):
    stuck, calls = blocker("init"), []

    class Late(torvyn.Sink):
        def init(self, config):
            calls.append("init")

        def push(self, element):
            calls.append("push")

    flow = torvyn.Flow().add("source", ["a"])
    flow.add("stuck", part(stuck, "inline"), init_timeout_s=LIMIT_S).add("sink", Late())
    flow.connect("source", "stuck").connect("stuck", "sink")
    with pytest.raises(FlowError):
        flow.start()
    stuck.released.set()

    assert stuck.torn.wait(ENOUGH_S)
    assert calls == []


def test_waiting_for_a_stuck_flow_ends_in_time(blocker):
    stuck = blocker("work")
    flow = limited(part(stuck, "inline")).start()
    assert stuck.entered.wait(ENOUGH_S)

    assert flow.wait(0.01) is False
    assert flow.state == "running"
    stuck.released.set()
    assert flow.wait(ENOUGH_S)


def test_a_loop_that_a_component_blocks_is_not_used_again(blocker):
    stuck = blocker("work")
    flow = limited(part(stuck, "async"), deadline_s=DEADLINE_S).start()
    with pytest.raises(FlowError):
        flow.wait(ENOUGH_S)

    async def later(element):
        await asyncio.sleep(0)
        return element.text

    sink = CollectingSink()
    torvyn.Flow(["a"], torvyn.processor(later), sink).run()

    assert sink.texts == ["a"]


def test_a_deadline_counts_the_start(blocker):
    stuck = blocker("init")
    flow = limited(part(stuck, "inline"), deadline_s=DEADLINE_S, init_timeout_s=60)

    with pytest.raises(FlowError, match="node `stuck` in `init` has not returned") as caught:
        flow.start()
    assert caught.value.code == "reactor.deadline-exceeded"


# The caller's own thread


class Reports(logging.Handler):
    def __init__(self):
        super().__init__()
        self.came = threading.Event()
        self.texts = []

    def emit(self, record):
        if getattr(record, "event", "") == "node.stuck":
            self.texts.append(record.getMessage())
            self.came.set()


@pytest.fixture
def reports():
    handler, logger = Reports(), logging.getLogger("torvyn.reactor")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def iterate(flow):
    list(flow)


def run_on_a_loop(flow):
    async def main():
        async for _ in flow:
            pass

    asyncio.run(main())


@pytest.mark.parametrize("drive", [iterate, run_on_a_loop])
@pytest.mark.parametrize("phase", ["init", "work", "teardown"])
def test_a_component_that_keeps_its_callers_thread_is_reported(blocker, reports, drive, phase):
    stuck = blocker(phase)
    flow = torvyn.Flow(deadline_s=DEADLINE_S if phase == "work" else None).add("source", ["a"])
    flow.add("stuck", part(stuck, "inline"), init_timeout_s=LIMIT_S).connect("source", "stuck")
    plan = flow.plan
    runtime = dataclasses.replace(plan.runtime, teardown_timeout_s=LIMIT_S)
    flow = torvyn._flow.flow.Flow.from_plan(dataclasses.replace(plan, runtime=runtime))

    def release_when_reported():
        assert reports.came.wait(ENOUGH_S)
        stuck.released.set()

    releasing = threading.Thread(target=release_when_reported)
    releasing.start()
    # A deadline that passed while the component was busy still fails the flow.
    with pytest.raises(FlowError) if phase == "work" else contextlib.nullcontext():
        drive(flow)
    releasing.join(ENOUGH_S)

    (text,) = reports.texts
    method = "process" if phase == "work" else phase
    limit = "1 s" if phase == "work" else "0.1 s"
    assert text.startswith(f"node `stuck` in `{method}` has not returned after {limit}")
    assert "in enter" in text


def test_a_flow_that_is_fed_reports_a_component_that_does_not_return(blocker, reports):
    stuck = blocker("work")
    flow = torvyn.Flow(part(stuck, "inline"), deadline_s=DEADLINE_S)

    def release_when_reported():
        assert reports.came.wait(ENOUGH_S)
        stuck.released.set()

    releasing = threading.Thread(target=release_when_reported)
    releasing.start()
    with pytest.raises(FlowError):
        flow.feed(["a", "b"])
        flow.finish()
    releasing.join(ENOUGH_S)

    assert len(reports.texts) == 1


def test_a_start_that_is_interrupted_leaves_nothing_running(blocker, monkeypatch):
    stuck = blocker("init")

    def run_and_interrupt(act):
        run_on_spare_thread(act)
        assert stuck.entered.wait(ENOUGH_S)
        raise KeyboardInterrupt

    flow = limited(part(stuck, "inline"), init_timeout_s=60)
    monkeypatch.setattr("torvyn._flow.execution.run_on_spare_thread", run_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        flow.start()
    stuck.released.set()

    assert stuck.torn.wait(ENOUGH_S)
    with pytest.raises(KeyboardInterrupt):
        flow.wait(ENOUGH_S)
    assert flow.state == "failed"
