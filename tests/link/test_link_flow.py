"""Drafts made in programs: the rules of the graph, run modes, ports and policies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import torvyn
from torvyn import link
from torvyn.errors import Diagnostic, LinkError
from torvyn.link import EdgeDraft, ErrorPolicy, FlowDraft, NodeDraft, Plan
from torvyn.manifest import resolve

SETTINGS = resolve(environ={})


class Keep(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> bool:
        return True


class KeepAsync(torvyn.Filter):
    async def evaluate(self, element: torvyn.Element) -> bool:
        return True


class Blocking(Keep):
    run = "thread"


class Drop(torvyn.Sink):
    unit = "things"

    def push(self, element: torvyn.Element) -> None:
        pass


class Ways(torvyn.Router):
    ports = ("metrics", "logs")

    def route(self, element: torvyn.Element) -> tuple[str, ...]:
        return self.ports


class OpenWays(torvyn.Router):
    def route(self, element: torvyn.Element) -> tuple[str, ...]:
        return ()


def numbers() -> Any:
    return torvyn.source(["1", "2"])


def draft(nodes: dict[str, Any], edges: list[str], **options: Any) -> FlowDraft:
    made = {
        name: part if isinstance(part, NodeDraft) else NodeDraft(name, part)
        for name, part in nodes.items()
    }
    for name, node in made.items():
        node.name = name
    return FlowDraft("main", made, [edge(text) for text in edges], **options)


def edge(text: str) -> EdgeDraft:
    source, target = text.split(" > ")
    name, _, port = source.partition(":")
    return EdgeDraft(name, target, port or None)


def plan(nodes: dict[str, Any], edges: list[str], **options: Any) -> Plan:
    return link.link_flow(draft(nodes, edges, **options), settings=SETTINGS)


def wrong(nodes: dict[str, Any], edges: list[str], **options: Any) -> tuple[Diagnostic, ...]:
    with pytest.raises(LinkError) as caught:
        plan(nodes, edges, **options)
    return caught.value.diagnostics


def codes(nodes: dict[str, Any], edges: list[str], **options: Any) -> list[str]:
    return [found.code for found in wrong(nodes, edges, **options)]


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
    assert link.instantiate(node.component) is sink


def test_a_cycle_is_told_by_its_nodes() -> None:
    nodes = {"a": numbers(), "b": Keep(), "c": Keep(), "d": Keep(), "e": Drop()}
    found = wrong(nodes, ["a > b", "b > c", "c > d", "d > b", "d > e"])

    assert [each.message for each in found] == [
        "the edges run in a circle: `b` -> `c` -> `d` -> `b`"
    ]


def test_a_node_that_feeds_itself_is_a_cycle() -> None:
    found = wrong({"a": numbers(), "b": Keep(), "c": Drop()}, ["a > b", "b > b", "b > c"])

    assert found[0].message == "the edges run in a circle: `b` -> `b`"


def test_all_problems_of_a_flow_are_told_in_one_run() -> None:
    nodes = {"a": numbers(), "b": NodeDraft("b", "bloklist"), "c": NodeDraft("c", Keep(), run="x")}

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
    made = link.link_flow(
        draft(nodes, ["a > b"]), settings=SETTINGS, open_start=True, open_end=True
    )

    assert [node.name for node in made.nodes] == ["a", "b"]
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


def test_an_unknown_port_is_told_the_nearest() -> None:
    nodes = {"a": numbers(), "by-type": Ways(), "b": Drop()}
    found = wrong(nodes, ["a > by-type", "by-type:metrcs > b"])

    assert found[0].render() == (
        "error[link.port-unknown]: router `by-type` has no output port `metrcs`\n"
        "  at flow.main.edges[1].from\n"
        "\n"
        "hint: its ports are `metrics` and `logs`; did you mean `metrics`?"
    )


def test_a_router_may_have_its_ports_in_its_config() -> None:
    nodes = {
        "a": numbers(),
        "r": NodeDraft("r", OpenWays(), config={"ports": ["x", "y"]}),
        "b": Drop(),
    }

    assert plan(nodes, ["a > r", "r:y > b"]).node("r").ports == ("x", "y")


@pytest.mark.parametrize("ports", ["metrics", 3, ["a", "a"], ["error"], [""], []])
def test_ports_are_a_list_of_different_names(ports: Any) -> None:
    nodes = {"a": numbers(), "r": NodeDraft("r", OpenWays(), config={"ports": ports}), "b": Drop()}

    assert "link.bad-ports" in codes(nodes, ["a > r", "r:x > b"])


async def letters() -> AsyncIterator[str]:
    yield "a"


async def louder(stream: Any) -> AsyncIterator[str]:
    async for element in stream:
        yield element.text.upper()


def slower(stream: Any) -> Iterator[str]:
    for element in stream:
        yield element.text


class Pulled(torvyn.Source):
    async def pull(self) -> None:
        return None


@pytest.mark.parametrize(
    ("component", "run"),
    [
        (Keep(), "inline"),
        (KeepAsync(), "async"),
        (Blocking(), "thread"),
        (torvyn.filter(lambda element: True), "inline"),
        (torvyn.stream(louder), "async"),
        (torvyn.stream(slower), "thread"),
    ],
)
def test_the_run_mode_is_found_from_the_component(component: Any, run: str) -> None:
    nodes = {"a": numbers(), "b": component, "c": Drop()}

    assert plan(nodes, ["a > b", "b > c"]).node("b").run == run


@pytest.mark.parametrize(
    ("source", "run"),
    [
        (torvyn.source(["a"]), "inline"),
        (torvyn.source(letters), "async"),
        (torvyn.source(letters()), "async"),
        (Pulled(), "async"),
    ],
)
def test_the_run_mode_of_a_source_follows_its_iterator(source: Any, run: str) -> None:
    assert plan({"a": source, "b": Drop()}, ["a > b"]).node("a").run == run


@pytest.mark.parametrize(
    ("component", "run"),
    [
        (Keep(), "async"),
        (KeepAsync(), "inline"),
        (KeepAsync(), "thread"),
        (torvyn.stream(slower), "inline"),
        (Keep(), "threaded"),
    ],
)
def test_a_contradictory_run_mode_is_an_error(component: Any, run: str) -> None:
    nodes = {"a": numbers(), "b": NodeDraft("b", component, run=run), "c": Drop()}

    assert codes(nodes, ["a > b", "b > c"]) == ["link.bad-run"]


def test_an_edge_overrides_the_flow_and_the_flow_the_default() -> None:
    made = draft({"a": numbers(), "b": Keep(), "c": Drop()}, ["a > b", "b > c"], queue_depth=8)
    made.edges[0].queue_depth = 4
    made.edges[1].backpressure = "block-producer"
    first, second = link.link_flow(made, settings=SETTINGS).edges

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
    made = draft({"a": numbers(), "b": Drop()}, ["a > b"])
    setattr(made.edges[0], name, value)
    with pytest.raises(LinkError) as caught:
        link.link_flow(made, settings=SETTINGS)

    assert caught.value.code == "link.bad-value"
    assert str(caught.value.location) == f"flow.main.edges[0].{name}"


def test_a_config_of_a_live_component_reaches_its_plan() -> None:
    nodes = {"a": numbers(), "b": Keep({"words": ["x"]}), "c": Drop("plain")}
    made = plan(nodes, ["a > b", "b > c"])

    assert made.node("b").config == '{"words": ["x"]}'
    assert made.node("c").config == "plain"


def test_a_policy_is_read_with_its_defaults() -> None:
    policy = {"policy": "retry", "backoff": "50ms", "then": "skip"}
    nodes = {"a": numbers(), "b": NodeDraft("b", Keep(), on_error=policy), "c": Drop()}
    made = plan(nodes, ["a > b", "b > c"], on_error="skip")

    assert made.node("b").on_error == ErrorPolicy("retry", 3, 0.05, "skip")
    assert made.node("c").on_error == ErrorPolicy("skip")


@pytest.mark.parametrize(
    "policy",
    [
        "ignore",
        {"policy": "retry", "max": 0},
        {"policy": "retry", "then": "retry"},
        {"policy": "retry", "backof": "1s"},
        {"policy": "retry", "backoff": "soon"},
        {"policy": "skip", "max": 3},
        {"policy": "skip", "to": "c"},
        {"policy": "dead-letter"},
        {"max": 3},
    ],
)
def test_a_wrong_policy_is_an_error(policy: Any) -> None:
    nodes = {"a": numbers(), "b": NodeDraft("b", Keep(), on_error=policy), "c": Drop()}

    assert set(codes(nodes, ["a > b", "b > c"])) == {"link.bad-policy"}


def letter_plan(to: str, **flow: Any) -> Plan:
    policy = {"policy": "dead-letter", "to": to}
    nodes = {"a": numbers(), "b": NodeDraft("b", Keep(), on_error=policy), "c": Drop(), "d": Drop()}
    return plan(nodes, ["a > b", "b > c", "a > d"], **flow)


@pytest.mark.parametrize("to", ["d", "d:input"])
def test_dead_letters_go_to_a_node_by_the_last_port(to: str) -> None:
    made = letter_plan(to)

    assert made.node("b").ports == ("output", "error")
    assert ("b", "error", "d") in [(e.source, e.port, e.target) for e in made.edges]


def test_dead_letters_go_to_a_file_by_a_hidden_sink() -> None:
    made = letter_plan("errors.jsonl")
    hidden = made.node("b.dead-letter")

    assert (hidden.role, hidden.component.name) == ("sink", "file")
    assert hidden.config == '{"path": "errors.jsonl", "format": "json"}'
    assert (made.edges[-1].source, made.edges[-1].port) == ("b", "error")


@pytest.mark.parametrize(
    ("to", "code"), [("dd", "link.node-unknown"), ("d:out", "link.input-port-unknown")]
)
def test_dead_letters_to_nowhere_are_an_error(to: str, code: str) -> None:
    with pytest.raises(LinkError) as caught:
        letter_plan(to)

    assert caught.value.code == code


def test_dead_letters_that_come_back_are_a_cycle() -> None:
    policy = {"policy": "dead-letter", "to": "b"}
    nodes = {"a": numbers(), "b": Keep(), "c": NodeDraft("c", Drop(), on_error=policy)}

    assert codes(nodes, ["a > b", "b > c"]) == ["link.cycle"]


def test_a_source_has_no_element_to_set_aside() -> None:
    policy = {"policy": "dead-letter", "to": "b"}

    assert codes({"a": NodeDraft("a", numbers(), on_error=policy), "b": Drop()}, ["a > b"]) == [
        "link.bad-policy"
    ]


def test_a_policy_of_the_flow_holds_where_it_can() -> None:
    nodes = {"a": numbers(), "b": Keep(), "c": Drop(), "letters": Drop()}
    policy = {"policy": "dead-letter", "to": "letters"}
    made = plan(nodes, ["a > b", "b > c", "a > letters"], on_error=policy)

    assert {node.name: node.on_error.policy for node in made.nodes} == {
        "a": "fail-fast",
        "b": "dead-letter",
        "c": "dead-letter",
        "letters": "fail-fast",
    }
    assert made.node("c").ports == ("error",)


def test_one_file_of_dead_letters_has_one_hidden_sink() -> None:
    policy = {"policy": "dead-letter", "to": "errors.jsonl"}
    made = plan({"a": numbers(), "b": Keep(), "c": Drop()}, ["a > b", "b > c"], on_error=policy)

    assert [node.name for node in made.nodes] == ["a", "b", "c", "b.dead-letter"]
