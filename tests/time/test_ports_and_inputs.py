"""Further output ports and named inputs of processors and aggregators."""

import pytest

import torvyn
from torvyn import Aggregator, Output, Processor
from torvyn.errors import ContractError, LinkError
from torvyn.testing import CollectingSink, check_account


class Sorter(Aggregator):
    """Sends odd numbers to a port of their own."""

    ports = ("odd",)

    def ingest(self, element):
        return Output(element.text, port="odd" if int(element.text) % 2 else None)


class Tagger(Processor):
    """Says which input each element came from."""

    inputs = ("left", "right")

    def process(self, element):
        return f"{self.input} {element.text}"


def sorted_numbers(numbers, *, odd=True, sorter=None):
    flow = torvyn.Flow().add("numbers", [str(number) for number in numbers])
    flow.add("sorter", sorter or Sorter()).connect("numbers", "sorter")
    sinks = {"output": CollectingSink(), "odd": CollectingSink()}
    for port, sink in sinks.items():
        if port == "output" or odd:
            flow.add(port, sink).connect(f"sorter:{port}", port)
    flow.run()
    check_account(flow.statistics)
    return flow, sinks["output"].texts, sinks["odd"].texts


def test_an_output_leaves_through_the_port_it_names():
    _, even, odd = sorted_numbers(range(6))
    assert (even, odd) == (["0", "2", "4"], ["1", "3", "5"])


def test_a_further_port_needs_no_edge_and_its_elements_are_counted():
    flow, even, _ = sorted_numbers(range(6), odd=False)
    assert even == ["0", "2", "4"]
    assert flow.statistics.nodes["sorter"].ignored == 3


def test_order_holds_per_port_behind_small_queues():
    flow = torvyn.Flow(queue_depth=1).add("numbers", [str(n) for n in range(200)])
    flow.add("sorter", Sorter()).connect("numbers", "sorter")
    even, odd = CollectingSink(), CollectingSink()
    flow.add("even", even).connect("sorter", "even")
    flow.add("odd", odd).connect("sorter:odd", "odd")
    flow.run()
    assert even.texts == [str(n) for n in range(0, 200, 2)]
    assert odd.texts == [str(n) for n in range(1, 200, 2)]


def test_a_port_that_is_not_declared_is_an_error():
    class Wrong(Sorter):
        ports = ()

    with pytest.raises(ContractError, match="a port that the component does not declare"):
        sorted_numbers([1], odd=False, sorter=Wrong())


def test_an_element_arrives_with_the_name_of_its_input():
    sink = CollectingSink()
    flow = torvyn.Flow().add("a", ["1", "2"]).add("b", ["3"]).add("tag", Tagger())
    flow.add("sink", sink).connect("a", "tag:left").connect("b", "tag:right").connect("tag", "sink")
    flow.run()
    assert sorted(sink.texts) == ["left 1", "left 2", "right 3"]


def test_one_node_may_feed_both_inputs():
    sink = CollectingSink()
    flow = torvyn.Flow().add("a", ["1"]).add("tag", Tagger()).add("sink", sink)
    flow.connect("a", "tag:left").connect("a", "tag:right").connect("tag", "sink").run()
    assert sorted(sink.texts) == ["left 1", "right 1"]


@pytest.mark.parametrize("target", ["tag", "tag:middle"])
def test_an_edge_must_name_one_of_the_inputs(target):
    flow = torvyn.Flow().add("a", ["1"]).add("tag", Tagger()).connect("a", target)
    with pytest.raises(LinkError, match="has no input port") as caught:
        _ = flow.plan
    assert "`left` and `right`" in str(caught.value.hint)


def test_each_key_knows_the_input_of_its_element():
    sink = CollectingSink()
    flow = torvyn.Flow().add("a", ["1"]).add("b", ["2", "1"]).add("sink", sink)
    flow.add("tag", Tagger(), key=lambda element: element.text)
    flow.connect("a", "tag:left").connect("b", "tag:right").connect("tag", "sink").run()
    assert sorted(sink.texts) == ["left 1", "right 1", "right 2"]
