"""What becomes of the state of a component that is swapped."""

from collections import Counter

import pytest

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import CountingSource


class Tally(torvyn.Aggregator):
    """Emits how often it has seen each text, at the end."""

    def __init__(self):
        super().__init__()
        self.seen = Counter()

    def ingest(self, element):
        self.seen[element.text] += 1

    def flush(self):
        return str(dict(self.seen))


class SavedTally(Tally):
    def snapshot(self):
        return dict(self.seen)

    def restore(self, state):
        self.seen = Counter(state)


class Number(torvyn.Processor):
    def __init__(self, mark):
        super().__init__()
        self.mark, self.count = mark, 0

    def process(self, element):
        self.count += 1
        return f"{element.text}{self.mark}{self.count}"

    def snapshot(self):
        return self.count

    def restore(self, state):
        self.count = state


def texts(elements):
    return [element.text for element in elements]


def running(component, *fed, **options):
    flow = torvyn.Flow().add("node", component, **options)
    return flow, texts(flow.feed(list(fed)))


def test_an_aggregator_keeps_what_it_has_collected():
    flow, _ = running(SavedTally(), "a", "b", "a")
    flow.swap("node", SavedTally())
    flow.feed("b")

    assert texts(flow.finish()) == ["{'a': 2, 'b': 2}"]


def test_what_an_aggregator_cannot_save_is_not_dropped():
    flow, _ = running(Tally(), "a")
    with pytest.raises(FlowError, match="would lose what it has collected"):
        flow.swap("node", Tally())

    assert texts(flow.finish()) == ["{'a': 1}"]


def test_a_state_may_be_discarded():
    flow, _ = running(Tally(), "a")
    report = flow.swap("node", Tally(), discard_state=True)
    flow.feed("b")

    assert (report.state, texts(flow.finish())) == ("empty", ["{'b': 1}"])


def test_every_key_keeps_its_state():
    flow, read = running(Number("-"), "x", "y", "x", key=lambda element: element.text)
    flow.swap("node", Number("+"))

    assert read == ["x-1", "y-1", "x-2"]
    assert texts(flow.feed(["x", "y", "z"])) == ["x+3", "y+2", "z+1"]


def test_a_smaller_batch_takes_what_the_larger_one_held():
    flow, read = running("batch", "a", "b", "c", config={"size": 5})
    flow.swap("node", "batch", config={"size": 2})

    assert read + texts(flow.feed(["d", "e", "f"])) == ["a\nb\nc\nd", "e\nf"]


def test_a_window_stays_open():
    flow, read = running("window", "a", "b", config={"size": 3})
    flow.swap("node", "window", config={"size": 3})

    assert read == []
    assert len(flow.feed(["c", "d"])) == 1


def test_a_source_without_a_position_is_refused():
    flow = torvyn.Flow(CountingSource(10))
    with pytest.raises(FlowError, match="its position"):
        for _ in flow:
            flow.swap("source", CountingSource(10))


def test_a_guard_is_swapped_when_it_holds_no_text():
    config = {"words": "secret", "mode": "stream", "action": "replace"}
    flow, read = running("blocklist", "a sec", config=config)
    with pytest.raises(FlowError, match="holds text"):
        flow.swap("node", "blocklist", config=config, timeout_s=0.01)
    read += texts(flow.feed("ond b "))
    report = flow.swap("node", "blocklist", config=config)

    assert "".join(read + texts(flow.finish())) == "a second b "
    assert report.state == "none"


def test_the_snapshot_of_a_component_that_fails_keeps_it_running():
    class Unsaved(Number):
        def snapshot(self):
            raise OSError("disk gone")

    flow, _ = running(Unsaved("-"), "x")
    with pytest.raises(FlowError, match="disk gone") as caught:
        flow.swap("node", Number("+"))

    assert caught.value.code == "swap.state-refused"
    assert texts(flow.feed("y")) == ["y-2"]
