"""A component is exchanged while its flow runs."""

import asyncio
import threading

import pytest

import torvyn
from torvyn.testing import CountingSource, as_variant


class Stamp(torvyn.Processor):
    """Adds its version and the number of elements that it and those before it have seen."""

    def __init__(self, version):
        super().__init__()
        self.version, self.count = version, 0
        self.is_torn_down = threading.Event()

    def process(self, element):
        self.count += 1
        return f"{element.text}{self.version}{self.count}"

    def snapshot(self):
        return self.count

    def restore(self, state):
        self.count = state

    def teardown(self):
        self.is_torn_down.set()


def texts(elements):
    return [element.text for element in elements]


def test_elements_after_the_swap_go_to_the_new_component():
    flow = torvyn.Flow().add("stamp", Stamp("a"))
    before = texts(flow.feed(["x", "y"]))
    report = flow.swap("stamp", Stamp("b"))

    assert before + texts(flow.feed(["x", "y"])) == ["xa1", "ya2", "xb3", "yb4"]
    assert (report.node, report.component, report.state) == ("stamp", "Stamp", "restored")
    assert flow.swaps == [report]


@pytest.mark.parametrize("after", ["python", "thread", "async"])
@pytest.mark.parametrize("before", ["python", "thread", "async"])
def test_the_run_mode_may_change(before, after):
    upper, lower = (torvyn.processor(lambda e: e.text.upper()), torvyn.processor(lambda e: "low"))
    flow = torvyn.Flow(CountingSource(2000), as_variant(upper, before))
    read = []
    for element in flow:
        read.append(element.text)
        if len(read) == 500:
            flow.swap("processor", as_variant(lower, after))

    assert len(read) == 2000
    assert read[-1] == "low"
    assert read == sorted(read, key="low".__eq__)


def test_a_reader_may_swap_inside_its_loop():
    flow, seen = torvyn.Flow(CountingSource(6), Stamp("a")), []
    for number, element in enumerate(flow):
        seen.append(element.text[-2:])
        if number == 2:
            flow.swap("processor", Stamp("b"))

    assert [text[1] for text in seen] == list("123456")
    assert {text[0] for text in seen} == {"a", "b"}


def test_a_task_may_swap_the_flow_that_it_reads():
    async def run():
        flow, seen = torvyn.Flow(CountingSource(6), as_variant(Stamp("a"), "python")), []
        async for element in flow:
            seen.append(element.text[-2:])
            if len(seen) == 2:
                await flow.swap_async("processor", Stamp("b"))
        return seen

    assert [text[1] for text in asyncio.run(run())] == list("123456")


def test_the_old_component_is_torn_down_after_its_trial():
    old, flow = Stamp("a"), torvyn.Flow()
    flow.add("stamp", old).feed("x")
    flow.swap("stamp", Stamp("b"), trial_s=0.01)

    assert old.is_torn_down.wait(10)
    assert texts(flow.feed("x")) == ["xb2"]


def test_both_components_are_torn_down_at_the_end_of_the_flow():
    old, new, flow = Stamp("a"), Stamp("b"), torvyn.Flow()
    flow.add("stamp", old).feed("x")
    flow.swap("stamp", new, trial_s=60)
    flow.finish()

    assert old.is_torn_down.is_set()
    assert new.is_torn_down.is_set()


def test_a_built_in_component_gets_a_new_config():
    flow = torvyn.Flow().add("words", "blocklist", config={"words": ["red"]})
    read = texts(flow.feed(["red", "blue"]))
    flow.swap("words", "blocklist", config={"words": ["blue"]})

    assert read + texts(flow.feed(["red", "blue"])) == ["blue", "red"]


def test_counters_go_on():
    flow = torvyn.Flow().add("stamp", Stamp("a"))
    flow.feed(["x"] * 3)
    flow.swap("stamp", Stamp("b"))
    flow.feed(["x"] * 4)

    assert flow.statistics.nodes["stamp"].received == 7


def test_a_component_cannot_wait_for_its_own_swap():
    class Eager(torvyn.Processor):
        def process(self, element):
            flow.swap("eager", Stamp("b"), timeout_s=0.01)

    flow = torvyn.Flow().add("eager", Eager())
    with pytest.raises(torvyn.TorvynError, match="blocks the flow"):
        flow.feed("x")
