"""Swaps at inconvenient moments: during a call, a pause, a retry, back-pressure, the end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink, CountingSource, as_variant

MODES = pytest.mark.parametrize("mode", ["python", "thread"])


class Gated(torvyn.Processor):
    """Stops in the call for one element until the gate opens."""

    def __init__(self, mark, stop=None):
        super().__init__()
        self.mark, self.stop = mark, stop
        self.is_inside, self.gate = threading.Event(), threading.Event()

    def process(self, element):
        if element.sequence == self.stop:
            self.is_inside.set()
            assert self.gate.wait(20)
        return self.mark


def wait_until_pending(flow):
    """Returns when the new component is ready, and its swap waits for a turn."""
    while not flow._execution.swaps.swapper.needs_turn:
        threading.Event().wait(0.001)


@MODES
def test_a_call_that_has_begun_finishes_on_the_old_component(mode):
    old, sink = Gated("a", stop=50), CollectingSink()
    flow = torvyn.Flow(CountingSource(100), as_variant(old, mode), sink).start()
    assert old.is_inside.wait(20)
    with ThreadPoolExecutor() as pool:
        swap = pool.submit(flow.swap, "processor", as_variant(Gated("b"), mode))
        wait_until_pending(flow)
        old.gate.set()
        swap.result(20)
    flow.wait()

    assert len(sink.texts) == 100
    assert sink.texts[50] == "a"
    assert sink.texts == sorted(sink.texts)


def test_a_call_that_does_not_return_keeps_the_old_component():
    old, sink = as_variant(Gated("a", stop=50), "thread"), CollectingSink()
    flow = torvyn.Flow(CountingSource(100), old, sink).start()
    assert old.is_inside.wait(20)
    with pytest.raises(FlowError, match="a call has not returned") as caught:
        flow.swap("processor", Gated("b"), timeout_s=0.05)
    old.gate.set()
    flow.wait()

    assert (caught.value.code, sink.texts) == ("swap.busy", ["a"] * 100)


@MODES
def test_a_sink_that_has_paused_gives_its_elements_to_the_next(mode):
    class Pausing(torvyn.Sink):
        has_paused = threading.Event()

        def push(self, element):
            self.has_paused.set()
            return torvyn.Signal.PAUSE

    sink = CollectingSink()
    flow = torvyn.Flow(CountingSource(100), as_variant(Pausing(), mode))
    flow.start()
    assert Pausing.has_paused.wait(20)
    flow.swap("sink", sink)
    flow.wait()

    # The first was accepted by the one that paused.
    assert len(sink.texts) == 99


def test_an_element_that_waits_for_a_retry_goes_to_the_new_component():
    class Failing(torvyn.Processor):
        has_failed = threading.Event()

        def process(self, element):
            self.has_failed.set()
            raise torvyn.Unavailable("later")

    sink, retry = CollectingSink(), {"policy": "retry", "max": 9, "backoff": "60s"}
    flow = torvyn.Flow().add("source", CountingSource(3)).add("sink", sink)
    flow.add("stage", Failing(), on_error=retry).connect("source", "stage").connect("stage", "sink")
    flow.start()
    assert Failing.has_failed.wait(20)
    flow.swap("stage", torvyn.processor(lambda element: element.text))
    flow.wait()

    assert len(sink.texts) == 3


def test_an_element_that_is_still_producing_outputs_stays_with_the_old_component():
    def produce(mark):
        return torvyn.processor(lambda element: (f"{mark}{part}" for part in range(200)))

    flow, read = torvyn.Flow(CountingSource(2), produce("a")), []
    for element in flow:
        read.append(element.text)
        if len(read) == 1:
            with pytest.raises(FlowError, match="still emits"):
                flow.swap("processor", produce("b"), timeout_s=0.01)

    assert read == [f"a{part}" for part in range(200)] * 2


def test_the_end_of_a_flow_ends_a_swap_that_waits():
    old = as_variant(Gated("a", stop=50), "thread")
    flow = torvyn.Flow(CountingSource(100), old, CollectingSink()).start()
    assert old.is_inside.wait(20)
    with ThreadPoolExecutor() as pool:
        swap = pool.submit(flow.swap, "processor", Gated("b"))
        wait_until_pending(flow)
        flow.cancel()
        old.gate.set()
        with pytest.raises(FlowError, match="has ended"):
            swap.result(20)

    assert flow.state == "cancelled"
