"""`place`: what a group of nodes needs on a cluster, and where replicas would change the result."""

from __future__ import annotations

from typing import Any

import pytest
from flow_records import Drop, Keep, edge, flow_record, numbers

import torvyn
from torvyn._link.flow_linker import link_flow
from torvyn._link.plan import PlacePlan, Plan, segments_of
from torvyn._manifest.records import NodeRecord
from torvyn.errors import LinkError

TWO = {"replicas": 2}


class Total(torvyn.Processor):
    total = 0

    def process(self, element: torvyn.Element) -> str:
        self.total += int(element.text)
        return str(self.total)

    def snapshot(self) -> int:
        return self.total

    def restore(self, state: int) -> None:
        self.total = state


def node(component: Any, **options: Any) -> NodeRecord:
    return NodeRecord("", component, **options)


def plan(nodes: dict[str, Any], *edges: str) -> Plan:
    """The Plan; `a > b` is an edge in memory, `a >> b` one that NATS carries."""
    named = {
        name: node if isinstance(node, NodeRecord) else NodeRecord("", node)
        for name, node in nodes.items()
    }
    for name, each in named.items():
        each.name = name
    record = flow_record(named, [])
    for text in edges:
        record.edges.append(edge(text.replace(">>", ">")))
        record.edges[-1].carrier = "nats" if ">>" in text else None
    return link_flow(record)


def reason(nodes: dict[str, Any], *edges: str) -> str:
    with pytest.raises(LinkError) as caught:
        plan(nodes, *edges)
    assert caught.value.code == "link.bad-place"
    return caught.value.message


def test_a_place_is_read_with_its_defaults() -> None:
    place = {"cpus": 2, "memory": "1GiB", "resources": {"camera": 1}}
    made = plan({"a": numbers(), "b": node(Drop(), place=place)}, "a > b")

    assert made.node("b").place == PlacePlan(1, 2, 0.0, 1 << 30, {"camera": 1})
    assert made.node("a").place is None


@pytest.mark.parametrize(
    "place",
    [
        {"replica": 2},
        {"replicas": 0},
        {"replicas": 1.5},
        {"cpus": -1},
        {"gpus": "one"},
        {"resources": {"camera": 0}},
        {"resources": 1},
        {"memory": "lots"},
    ],
)
def test_a_wrong_place_is_an_error(place: Any) -> None:
    assert reason({"a": node(numbers(), place=place), "b": Drop()}, "a > b")


def test_a_segment_has_the_name_of_its_first_node() -> None:
    nodes = {"a": numbers(), "b": Keep(), "c": Keep(), "d": Drop()}
    segments = segments_of(plan(nodes, "a > b", "b >> c", "c > d"))

    assert [segment.name for segment in segments] == ["a", "c"]
    assert [each.name for each in segments[1].nodes] == ["c", "d"]
    assert [each.target for each in segments[0].outputs] == ["c"]
    assert segments[1].inputs == segments[0].outputs


def test_two_places_in_one_process_are_an_error() -> None:
    nodes = {"a": node(numbers(), place={"cpus": 1}), "b": node(Drop(), place={"cpus": 2})}

    assert "`a` and `b` run in one process" in reason(nodes, "a > b")
    assert plan(nodes, "a >> b").node("b").place == PlacePlan(cpus=2)


def test_a_source_has_no_replicas() -> None:
    nodes = {"a": numbers(), "b": node(Drop(), place=TWO)}

    assert "with the source `a`, which would run twice" in reason(nodes, "a > b")


def test_a_node_with_one_state_for_all_elements_has_no_replicas() -> None:
    nodes = {"a": numbers(), "b": node(Total(), place=TWO), "c": Drop()}

    assert "`b` keeps one state for all elements" in reason(nodes, "a >> b", "b >> c")


def test_nodes_of_a_replica_have_one_key() -> None:
    keyed = {"b": node(Total(), key="x", place=TWO), "c": node(Total(), key="y")}
    nodes = {"a": numbers(), **keyed, "d": Drop()}

    assert "different keys" in reason(nodes, "a >> b", "b > c", "c > d")


def test_elements_are_shared_out_in_front_of_the_keyed_node() -> None:
    nodes = {"a": numbers(), "b": node(Keep(), place=TWO), "c": node(Total(), key="x"), "d": Drop()}

    assert "in front of `b`" in reason(nodes, "a >> b", "b > c", "c > d")


@pytest.mark.parametrize("options", [{"key": "x"}, {"key": "x", "max_keys": 5}])
def test_a_keyed_node_has_replicas(options: Any) -> None:
    nodes = {"a": numbers(), "b": node(Total(), place=TWO, **options), "c": Drop()}

    assert plan(nodes, "a >> b", "b > c").node("b").place == PlacePlan(2)


def test_a_node_without_state_has_replicas() -> None:
    nodes = {"a": numbers(), "b": node(Keep(), place=TWO), "c": Drop()}

    assert plan(nodes, "a >> b", "b > c").node("b").place == PlacePlan(2)
