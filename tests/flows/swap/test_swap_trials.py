"""A new component that fails is exchanged for the old one again, and no element is lost."""

import threading

import pytest

import torvyn
from torvyn.testing import CollectingSink, CountingSource, as_variant


class Sum(torvyn.Processor):
    def __init__(self, fails_at=()):
        super().__init__()
        self.total, self.fails_at = 0, set(fails_at)

    def process(self, element):
        if int(element.text) in self.fails_at:
            raise ValueError(f"cannot add {element.text}")
        self.total += int(element.text)
        return str(self.total)

    def snapshot(self):
        return self.total

    def restore(self, state):
        self.total = state


def texts(elements):
    return [element.text for element in elements]


def test_the_old_component_gets_the_element_on_which_the_new_one_failed():
    flow = torvyn.Flow().add("sum", Sum())
    read = texts(flow.feed(["1", "2"]))
    flow.swap("sum", Sum(fails_at=[4]))
    read += texts(flow.feed(["3", "4", "5"]))

    assert read == ["1", "3", "6", "10", "15"]
    assert [(report.is_return, report.error) for report in flow.swaps] == [
        (False, ""),
        (True, "ValueError: cannot add 4"),
    ]


@pytest.mark.parametrize("mode", ["thread", "async"])
def test_a_component_outside_the_turns_returns_too(mode):
    old, bad = (as_variant(torvyn.processor(f), mode) for f in (lambda e: e.text, lambda e: 1 / 0))
    sink = CollectingSink()
    flow = torvyn.Flow(_Gated(), old, sink)
    flow.start()
    flow.swap("processor", bad)
    _Gated.gate.set()
    flow.wait()

    assert sink.texts == [str(number) for number in range(100)]
    assert [report.is_return for report in flow.swaps] == [False, True]
    assert flow.statistics.nodes["processor"].failed == 0


class _Gated(torvyn.Source):
    """Sends its numbers once the gate is open."""

    gate = threading.Event()

    def init(self, config):
        self.gate.clear()
        self.sent = 0

    def pull(self):
        if self.sent == 100:
            return None
        if not self.gate.is_set():
            return torvyn.PENDING.after(0.001)
        self.sent += 1
        return str(self.sent - 1)


def test_few_errors_that_a_policy_handles_do_not_end_a_trial():
    flow = torvyn.Flow().add("sum", Sum(), on_error="skip")
    flow.feed("1")
    flow.swap("sum", Sum(fails_at=[7, 8]))
    flow.feed([str(number) for number in range(2, 10)])

    assert [report.is_return for report in flow.swaps] == [False]
    assert flow.statistics.nodes["sum"].failed == 2


def test_many_errors_that_a_policy_handles_end_a_trial():
    flow = torvyn.Flow().add("sum", Sum(), on_error="skip")
    flow.feed("1")
    flow.swap("sum", Sum(fails_at=[2, 3, 4]))
    flow.feed(["2", "3", "4", "5"])

    assert [report.is_return for report in flow.swaps] == [False, True]
    assert flow.statistics.nodes["sum"].failed == 2


def test_after_the_trial_the_policy_of_the_node_applies():
    flow = torvyn.Flow().add("sum", Sum())
    flow.feed("1")
    flow.swap("sum", Sum(fails_at=[2]), trial_s=0)

    with pytest.raises(torvyn.Internal, match="cannot add 2"):
        flow.feed("2")


def test_a_source_that_fails_returns():
    class Broken(CountingSource):
        def pull(self):
            raise OSError("no device")

        def snapshot(self):
            return None

        def restore(self, state):
            pass

    class Counting(Broken):
        pull = CountingSource.pull

    flow, read = torvyn.Flow(Counting(4)), []
    for element in flow:
        read.append(element.text)
        if len(read) == 2:
            flow.swap("source", Broken(4))

    assert len(read) == 4
    assert flow.swaps[-1].error == "OSError: no device"
