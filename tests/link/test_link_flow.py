"""Drafts made in programs: the rules of the graph, ports and values of edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flow_records import SETTINGS, Drop, Keep, codes, edge, flow_record, numbers, plan, wrong

import torvyn
from torvyn._link.component_library import instantiate
from torvyn._link.flow_linker import link_flow
from torvyn._manifest.parse import parse
from torvyn._manifest.records import EDGE, NodeRecord
from torvyn._manifest.render import plain
from torvyn.errors import LinkError, ManifestError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'


class Ways(torvyn.Router):
    ports = ("metrics", "logs")

    def route(self, element: torvyn.Element) -> tuple[str, ...]:
        return self.ports


class OpenWays(torvyn.Router):
    def route(self, element: torvyn.Element) -> tuple[str, ...]:
        return ()


def test_nodes_are_in_topological_order_sources_first() -> None:
    nodes = {"sink": Drop(), "join": Keep(), "a": numbers(), "b": numbers()}
    made = plan(nodes, ["join > sink", "a > join", "b > join"])

    assert [node.name for node in made.nodes] == ["a", "b", "join", "sink"]


def test_a_live_component_is_named_by_its_class_and_kept() -> None:
    sink = Drop()
    node = plan({"a": numbers(), "b": sink}, ["a > b"]).node("b")

    assert node.component.kind == "object"
    assert node.component.name == "Drop"
    assert node.unit == "things"
    assert instantiate(node.component) is sink


def test_a_cycle_is_told_by_its_nodes() -> None:
    nodes = {"a": numbers(), "b": Keep(), "c": Keep(), "d": Keep(), "e": Drop()}
    found = wrong(nodes, ["a > b", "b > c", "c > d", "d > b", "d > e"])

    assert [each.message for each in found] == ["the edges form a cycle: `b` -> `c` -> `d` -> `b`"]


def test_a_node_that_feeds_itself_is_a_cycle() -> None:
    found = wrong({"a": numbers(), "b": Keep(), "c": Drop()}, ["a > b", "b > b", "b > c"])

    assert found[0].message == "the edges form a cycle: `b` -> `b`"


def test_all_problems_of_a_flow_are_told_in_one_run() -> None:
    nodes = {
        "a": numbers(),
        "b": NodeRecord("b", "bloklist"),
        "c": NodeRecord("c", Keep(), run="x"),
    }

    assert sorted(codes(nodes, ["a > b", "b > d", "c:out > a"], priority="urgent")) == [
        "link.bad-run",
        "link.bad-value",
        "link.component-unknown",
        "link.node-unknown",
        "link.port-unknown",
        "link.source-has-input",
    ]


def test_a_flow_without_nodes_is_an_error() -> None:
    assert codes({}, []) == ["link.no-source"]


def test_an_open_start_and_end_are_allowed_when_they_are_asked_for() -> None:
    nodes = {"a": Keep(), "b": Keep()}
    made = link_flow(
        flow_record(nodes, ["a > b"]), settings=SETTINGS, open_start=True, open_end=True
    )

    assert [node.name for node in made.nodes] == ["a", "b"]
    assert (made.head, made.tail) == ("a", "b")
    assert codes(nodes, ["a > b"]) == ["link.no-source", "link.no-sink"]


def test_a_port_takes_sixteen_edges_and_no_more() -> None:
    sinks = {f"s{index}": Drop() for index in range(16)}
    edges = [f"a > {name}" for name in sinks]

    assert len(plan({"a": numbers(), **sinks}, edges).edges) == 16
    assert codes({"a": numbers(), **sinks, "s": Drop()}, [*edges, "a > s"]) == [
        "link.too-many-edges"
    ]


def test_seventeen_edges_into_one_node_are_too_many() -> None:
    sources = {f"s{index}": numbers() for index in range(17)}

    assert codes({**sources, "z": Drop()}, [f"{name} > z" for name in sources]) == [
        "link.too-many-edges"
    ]


def test_a_router_has_the_ports_of_its_class() -> None:
    nodes = {"a": numbers(), "by-type": Ways(), "b": Drop(), "c": Drop()}
    edges = ["a > by-type", "by-type:metrics > b", "by-type:logs > c"]

    assert plan(nodes, edges).node("by-type").ports == ("metrics", "logs")


@pytest.mark.promise("tokens.edge-ends")
def test_an_unknown_port_is_told_the_nearest() -> None:
    nodes = {"a": numbers(), "by-type": Ways(), "b": Drop()}
    found = wrong(nodes, ["a > by-type", "by-type:metrcs > b"])

    assert found[0].render() == (
        "error[link.port-unknown]: router `by-type` has no output port `metrcs`\n"
        "  at flow.main.edges[1].from\n"
        "\n"
        "hint: its ports are `metrics` and `logs`; did you mean `metrics`?"
    )


@pytest.mark.promise("tokens.interfaces")
def test_an_interface_has_to_be_that_of_the_role() -> None:
    def nodes(interface: str) -> dict[str, Any]:
        return {"a": numbers(), "b": NodeRecord("b", Keep(), interface=interface), "c": Drop()}

    right, edges = "torvyn:filtering/filter", ["a > b", "b > c"]
    (other,) = wrong(nodes("torvyn:streaming/sink"), edges)
    (unknown,) = wrong(nodes("torvyn:filtering/fliter"), edges)

    assert plan(nodes(right), edges).node("b").role == "filter"
    assert (other.code, other.hint) == ("link.interface-mismatch", f"its interface is `{right}`")
    assert unknown.code == "link.interface-unknown"
    assert f"did you mean `{right}`?" in str(unknown.hint)


def test_a_router_may_have_its_ports_in_its_config() -> None:
    nodes = {
        "a": numbers(),
        "r": NodeRecord("r", OpenWays(), config={"ports": ["x", "y"]}),
        "b": Drop(),
    }

    assert plan(nodes, ["a > r", "r:x > b", "r:y > b"]).node("r").ports == ("x", "y")


@pytest.mark.parametrize("ports", ["metrics", 3, ["a", "a"], ["error"], [""], []])
def test_ports_are_a_list_of_different_names(ports: Any) -> None:
    nodes = {"a": numbers(), "r": NodeRecord("r", OpenWays(), config={"ports": ports}), "b": Drop()}

    assert "link.bad-ports" in codes(nodes, ["a > r", "r:x > b"])


def test_an_edge_overrides_the_flow_and_the_flow_the_default() -> None:
    flow = flow_record({"a": numbers(), "b": Keep(), "c": Drop()}, [], queue_depth=8)
    flow.edges.append(replace(edge("a > b"), queue_depth=4))
    flow.edges.append(replace(edge("b > c"), backpressure="block-producer"))
    first, second = link_flow(flow, settings=SETTINGS).edges

    assert (first.depth, second.depth) == (4, 8)
    assert (second.bytes, second.backpressure, second.low_watermark) == (1024 * 1024, "block", 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue_depth", 0),
        ("queue_depth", 1.5),
        ("queue_depth", True),
        ("queue_bytes", "1 MB"),
        ("backpressure", "wait"),
        ("low_watermark", 2),
        ("low_watermark", float("nan")),
    ],
)
def test_wrong_values_of_an_edge_are_told(name: str, value: Any) -> None:
    flow = flow_record({"a": numbers(), "b": Drop()}, [])
    flow.edges.append(replace(edge("a > b"), **{name: value}))
    with pytest.raises(LinkError) as caught:
        link_flow(flow, settings=SETTINGS)

    assert caught.value.code == "link.bad-value"
    assert str(caught.value.location) == f"flow.main.edges[0].{name}"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("queue_depth", 0, "`queue_depth` is 0; it must be at least 1"),
        ("queue_depth", 2**40, f"`queue_depth` is {2**40}; it must be at most {2**24}"),
        ("queue_bytes", "1 MB", "`1 MB` is not a size"),
        ("max_bytes", "1KiB", "`max_bytes` is 1KiB; it must be at least 1MiB"),
        ("max_age", "soon", "`soon` is not a duration"),
        ("backpressure", "wait", "`wait` is not a value of `backpressure`"),
        ("low_watermark", 2, "`low_watermark` is 2; it must be at most 1"),
    ],
)
def test_a_program_and_a_file_hear_the_same(name: str, value: Any, message: str) -> None:
    attribute = EDGE.by_name[name].attribute
    text = HEAD + f'[[flow.main.edges]]\nfrom = "a"\nto = "b"\n{name} = {plain(value)}\n'
    with pytest.raises(ManifestError) as in_file:
        parse(text)
    flow = flow_record({"a": numbers(), "b": Drop()}, [])
    flow.edges.append(replace(edge("a > b"), carrier="disk", **{attribute: value}))
    with pytest.raises(LinkError) as in_program:
        link_flow(flow, settings=SETTINGS)

    assert in_file.value.message == in_program.value.message == message
    assert in_file.value.hint == in_program.value.hint


def test_a_config_of_a_live_component_reaches_its_plan() -> None:
    nodes = {"a": numbers(), "b": Keep({"words": ["x"]}), "c": Drop("plain")}
    made = plan(nodes, ["a > b", "b > c"])

    assert made.node("b").config == '{"words": ["x"]}'
    assert made.node("c").config == "plain"
