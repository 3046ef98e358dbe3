"""What happens on errors: policies, and where dead letters go."""

from __future__ import annotations

from typing import Any

import pytest
from flow_records import SETTINGS, Drop, Keep, codes, flow_record, numbers, plan

import torvyn
from torvyn._link.flow_linker import link_flow
from torvyn._link.plan import ErrorPolicy, Plan
from torvyn._manifest.records import NodeRecord
from torvyn.errors import LinkError


def test_a_policy_is_read_with_its_defaults() -> None:
    policy = {"policy": "retry", "backoff": "50ms", "then": "skip"}
    nodes = {"a": numbers(), "b": NodeRecord("b", Keep(), on_error=policy), "c": Drop()}
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
    nodes = {"a": numbers(), "b": NodeRecord("b", Keep(), on_error=policy), "c": Drop()}

    assert set(codes(nodes, ["a > b", "b > c"])) == {"link.bad-policy"}


def test_a_wrong_value_of_a_policy_has_the_path_of_its_key() -> None:
    policy = {"policy": "retry", "max": 0}
    record = flow_record({"a": numbers(), "b": Drop()}, ["a > b"], on_error=policy)
    with pytest.raises(LinkError) as caught:
        link_flow(record, settings=SETTINGS)

    assert caught.value.message == "`max` is 0; it must be at least 1"
    assert str(caught.value.location) == "flow.main.on_error.max"


def letter_plan(to: str, **flow: Any) -> Plan:
    policy = {"policy": "dead-letter", "to": to}
    nodes = {
        "a": numbers(),
        "b": NodeRecord("b", Keep(), on_error=policy),
        "c": Drop(),
        "d": Drop(),
    }
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


def test_a_flow_that_is_iterated_may_keep_its_letters() -> None:
    for to in ("errors.jsonl", "letters"):
        policy = {"policy": "dead-letter", "to": to}
        nodes: dict[str, Any] = {"a": numbers(), "b": NodeRecord("b", Keep(), on_error=policy)}
        if to == "letters":
            nodes["letters"] = Drop()
        made = link_flow(flow_record(nodes, ["a > b"]), settings=SETTINGS, open_end=True)

        assert [edge.port for edge in made.edges] == ["output", "error"]
        assert (made.head, made.tail) == (None, "b")


def test_a_sink_of_letters_does_not_complete_a_flow() -> None:
    policy = {"policy": "dead-letter", "to": "c"}
    nodes = {"a": numbers(), "b": NodeRecord("b", Keep(), on_error=policy), "c": Drop()}

    assert codes(nodes, ["a > b"]) == ["link.no-sink"]
    assert codes({**nodes, "d": Drop()}, ["a > b", "a > d"]) == ["link.dead-end"]


def test_letters_may_pass_nodes_of_their_own() -> None:
    policy = {"policy": "dead-letter", "to": "shape"}
    nodes = {
        "a": numbers(),
        "b": NodeRecord("b", Keep(), on_error=policy),
        "c": Drop(),
        "shape": Keep(),
        "letters": Drop(),
    }

    assert len(plan(nodes, ["a > b", "b > c", "shape > letters"]).edges) == 4


def test_dead_letters_that_come_back_are_a_cycle() -> None:
    policy = {"policy": "dead-letter", "to": "b"}
    nodes = {"a": numbers(), "b": Keep(), "c": NodeRecord("c", Drop(), on_error=policy)}

    assert codes(nodes, ["a > b", "b > c"]) == ["link.cycle"]


def test_a_source_has_no_element_to_set_aside() -> None:
    policy = {"policy": "dead-letter", "to": "b"}

    assert codes({"a": NodeRecord("a", numbers(), on_error=policy), "b": Drop()}, ["a > b"]) == [
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


def durable(**options: Any) -> Plan:
    flow = torvyn.Flow()
    flow.add("in", torvyn.source(["a"]))
    flow.add("parse", torvyn.processor(lambda element: element), **options)
    flow.add("out", torvyn.sink(lambda element: None))
    return flow.connect("in", "parse", carrier="disk").connect("parse", "out").plan


def test_a_flow_that_keeps_state_sets_aside_what_its_nodes_refuse() -> None:
    policies = [node.on_error for node in durable().nodes]
    assert {policy.policy for policy in policies} == {"set-aside"}
    assert all(policy.stores_letters for policy in policies)


def test_a_flow_without_state_fails_fast() -> None:
    flow = torvyn.Flow(["a"], torvyn.sink(lambda element: None))
    assert {node.on_error.policy for node in flow.plan.nodes} == {"fail-fast"}


@pytest.mark.parametrize(
    ("on_error", "recovery"),
    [
        ("fail-fast", "fail-fast"),
        ("set-aside", "set-aside"),
        ("skip", "skip"),
        ("dead-letter", "store"),
        ({"policy": "dead-letter", "to": "letters.jsonl"}, "dead-letter"),
        ({"policy": "retry"}, "set-aside"),
        ({"policy": "retry", "then": "fail-fast"}, "fail-fast"),
        ({"policy": "retry", "then": "dead-letter"}, "store"),
    ],
)
def test_the_policy_of_a_node_decides_what_is_stored(on_error: Any, recovery: str) -> None:
    assert durable(on_error=on_error).node("parse").on_error.recovery == recovery


def test_set_aside_needs_a_place() -> None:
    with pytest.raises(LinkError, match="needs a flow that keeps state"):
        _ = torvyn.Flow(["a"], torvyn.sink(lambda e: None), on_error="set-aside").plan
