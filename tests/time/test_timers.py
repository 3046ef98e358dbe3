"""Timers: `due_ns` and `on_timer` of processors and aggregators, with a clock that a test moves."""

import asyncio
import time

import pytest
from fed_source import Fed

import torvyn
from torvyn import Aggregator, Processor
from torvyn.errors import ComponentError, ContractError, LinkError
from torvyn.testing import CollectingSink, StallingSink, check_account, idle, run_flow

SECOND_NS = 1_000_000_000


class Patient(Aggregator):
    """Sends what it has collected two seconds after the first element."""

    def init(self, config):
        self.texts, self.due, self.asked = [], None, 0

    def ingest(self, element):
        if self.due is None:
            self.due = self.now_ns() + 2 * SECOND_NS
        self.texts.append(element.text)

    def due_ns(self):
        self.asked += 1
        return self.due

    def on_timer(self):
        texts, self.texts, self.due = self.texts, [], None
        return "+".join(texts)

    def flush(self):
        return ["+".join(self.texts)] if self.texts else []


def test_an_aggregator_is_woken_when_its_time_comes(clock):
    source = Fed("a", "b")
    run = run_flow(source, Patient(), until=idle, clock=clock)
    clock.advance(1.999999999)
    assert run.go(idle).texts == []
    clock.advance(1e-9)
    assert run.go(idle).texts == ["a+b"]


def test_each_timer_fires_once_and_the_rest_is_flushed_at_the_end(clock):
    source = Fed("a")
    run = run_flow(source, Patient(), until=idle, clock=clock)
    for text in ("b", "c"):
        clock.advance(2)
        run.go(idle)
        source.put(text)
        run.go(idle)
    source.put(None)
    assert run.go().texts == ["a", "b", "c"]
    check_account(run.statistics)


def test_a_processor_may_have_a_timer(clock):
    class Echo(Processor):
        def init(self, config):
            self.due = None

        def process(self, element):
            self.due = element.timestamp_ns + SECOND_NS
            return element

        def due_ns(self):
            return self.due

        def on_timer(self):
            self.due = None
            yield "one"
            yield "two"

    run = run_flow(Fed("x"), Echo(), until=idle, clock=clock)
    clock.advance(1)
    assert run.go(idle).texts == ["x", "one", "two"]


def test_the_due_time_is_asked_once_per_run_of_the_node_and_not_per_element(clock):
    patient = Patient()
    run_flow(Fed(*"abcdefgh"), patient, until=idle, clock=clock)
    assert patient.asked <= 6


def test_a_timer_waits_while_the_queue_after_it_is_full(clock):
    class Restless(Patient):
        fired = 0

        def due_ns(self):
            return 0

        def on_timer(self):
            self.fired += 1
            return "tick"

    restless, sink = Restless(), StallingSink(after=1)
    run_flow(Fed(), restless, sink, capacity=2, until=idle, clock=clock)
    # 1 in the sink, 1 that the sink is working on, 2 waiting in the queue.
    assert restless.fired == 1 + 1 + 2


def test_a_timer_that_fails_fails_the_flow_and_names_the_method(clock):
    class Broken(Patient):
        def on_timer(self):
            raise RuntimeError("no")

    run = run_flow(Fed("a"), Broken(), until=idle, clock=clock)
    clock.advance(2)
    with pytest.raises(ComponentError, match=r"on_timer.*no"):
        run.go()


@pytest.mark.parametrize("due", [1.5, "soon"])
def test_a_wrong_due_time_is_reported(clock, due):
    class Wrong(Patient):
        def due_ns(self):
            return due

    with pytest.raises(ContractError, match="expected an int or None"):
        run_flow(Fed("a"), Wrong(), until=idle, clock=clock)


class Quick(Patient):
    """Sends after ten milliseconds, and ends its source."""

    def __init__(self, source):
        super().__init__()
        self.source = source

    def ingest(self, element):
        super().ingest(element)
        self.due = self.now_ns() + SECOND_NS // 100

    def on_timer(self):
        self.source.put(None)
        return super().on_timer()


def quick_flow():
    source, sink = Fed("a"), CollectingSink()
    return torvyn.Flow(source, Quick(source), sink), sink


def run_on_workers(flow):
    flow.start()
    flow.wait()


@pytest.mark.parametrize(
    "drive",
    [torvyn.Flow.run, run_on_workers, lambda flow: asyncio.run(flow.run_async())],
    ids=["caller", "workers", "loop"],
)
def test_a_timer_works_in_real_time_whoever_drives_the_flow(drive):
    flow, sink = quick_flow()
    started_s = time.monotonic()
    drive(flow)
    assert sink.texts == ["a"]
    assert 0.01 <= time.monotonic() - started_s < 20


def test_a_component_with_a_timer_cannot_run_on_a_thread():
    flow = torvyn.Flow().add("s", Fed("a")).add("p", Patient(), run="thread").connect("s", "p")
    with pytest.raises(LinkError, match="has a timer and cannot run `thread`"):
        _ = flow.plan


def test_batch_sends_what_has_lingered(clock):
    from torvyn.components import Batcher

    source = Fed("a", "b")
    batch = Batcher({"size": 3, "linger": "500ms"})
    run = run_flow(source, batch, until=idle, clock=clock)
    clock.advance(0.5)
    assert run.go(idle).texts == ["a\nb"]
    source.put("c", "d", "e", "f")
    assert run.go(idle).texts == ["a\nb", "c\nd\ne"]
    clock.advance(0.5)
    assert run.go(idle).texts[-1] == "f"
