"""Laws of single stages and edges: verdicts, drops and portions, wherever the stage runs."""

import threading

import pytest
from graphs import MODES
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

import torvyn
from torvyn.testing import StallingSink, as_variant, idle, run_flow

LAW = settings(max_examples=sample(15, full=60), deadline=None, print_blob=True)


@LAW
@given(
    st.sampled_from(["drop-oldest", "drop-newest"]),
    st.integers(1, 9),
    st.integers(0, 60),
    st.integers(0, 20),
    st.sampled_from(MODES),
)
def test_drops_are_counted_and_the_rest_keeps_its_order(policy, depth, total, after, mode):
    sink = StallingSink(after=after)
    source = [str(number) for number in range(total)]
    run = run_flow(source, sink, capacity=depth, backpressure=policy, variant=mode, until=idle)
    sink.release()
    run.go()

    got = [int(text) for text in sink.texts]
    assert got == sorted(set(got))
    assert len(got) + run.statistics.dropped == total
    assert run.statistics.edges[0].peak <= depth
    assert run.statistics.live == 0


VERDICTS = {
    "p": True,
    "d": False,
    "h": torvyn.Verdict.HOLD,
    "r": torvyn.Verdict.replace("*"),
    "b": torvyn.Verdict.block("no"),
}


def judged(script):
    """The verdicts in plain Python: the reference."""
    out, held = [], []
    for mark in script:
        if mark == "h":
            held.append(mark)
            continue
        if mark == "b":
            return out
        out += {"p": [*held, mark], "r": ["*"], "d": []}[mark]
        held = []
    return out + held


@LAW
@given(st.text("ppdhhrb", max_size=30), st.integers(1, 4), st.sampled_from(MODES))
def test_verdicts_mean_what_they_say(script, depth, mode):
    stage = torvyn.filter(lambda element: VERDICTS[element.text])

    run = run_flow(list(script), stage, capacity=depth, variant=mode)

    assert run.texts == judged(script)
    assert run.statistics.live == 0


@pytest.mark.parametrize("mode", MODES)
@LAW
@given(st.lists(st.lists(st.text(max_size=3), max_size=5), max_size=6))
def test_feeding_in_any_portions_gives_the_same_output(mode, portions):
    rung = threading.Event()
    flow = torvyn.Flow(as_variant(torvyn.processor(lambda e: [e.text, "|"]), mode))
    flow.on_ready(rung.set)
    out = []
    for portion in portions:
        out += flow.feed(portion)
    out += flow.finish()
    while flow.state != "completed":
        assert rung.wait(20)
        rung.clear()
        out += flow.ready()

    assert [e.text for e in out] == [x for part in portions for text in part for x in (text, "|")]
    assert flow.statistics.live == 0


class Reversing(torvyn.Aggregator):
    """Collects `size` texts and gives them back to front."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def init(self, config):
        self.texts = []

    def ingest(self, element):
        self.texts.append(element.text)
        return self.take() if len(self.texts) == self.size else None

    def flush(self):
        return [self.take()] if self.texts else []

    def take(self):
        joined = "".join(reversed(self.texts))
        self.texts.clear()
        return joined


@LAW
@given(st.text("abc", max_size=40), st.integers(1, 7), st.integers(1, 4), st.sampled_from(MODES))
def test_an_aggregator_flushes_exactly_the_rest(text, size, depth, mode):
    run = run_flow(list(text), Reversing(size), capacity=depth, variant=mode)

    groups = [text[at : at + size][::-1] for at in range(0, len(text), size)]
    assert run.texts == groups
    assert [element.sequence for element in run.elements] == list(range(len(groups)))
