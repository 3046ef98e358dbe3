"""The order of a Plan's nodes: whoever prints, stores or compares Plans relies on it."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError
from itertools import pairwise
from pathlib import Path

import pytest
from flow_records import Drop, Keep, flow_record, numbers, wrong
from hypothesis import given
from hypothesis import strategies as st

from torvyn._link.error_policy import find_dead_letters
from torvyn._link.graph import order
from torvyn._link.plan import ComponentRef, EdgePlan, ErrorPolicy, NodePlan
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import NodeRecord

GRAPHS = Path(__file__).with_name("node_orders.txt").read_text().splitlines()
"""Nodes as they are declared, edges, and the order; a letter is a node."""
PAIRS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12)


def edges_of(pairs: Sequence[Sequence[str]]) -> list[EdgePlan]:
    return [EdgePlan(source, "output", target) for source, target in pairs]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_order_of_a_graph_does_not_change(graph: str) -> None:
    names, pairs, expected = graph.split(":")

    assert "".join(order(names, edges_of(pairs.split()))) == expected.strip()


@given(PAIRS)
def test_nodes_follow_those_before_them_and_a_cycle_names_only_its_own(
    pairs: list[tuple[str, str]],
) -> None:
    try:
        names = order("abcdef", edges_of(pairs))
    except CycleError as error:
        cycle = error.args[1]
        assert {*pairwise(cycle)} <= {*pairs}
    else:
        assert sorted(names) == [*"abcdef"]
        assert all(names.index(source) < names.index(target) for source, target in pairs)


def test_the_cycle_that_is_told_begins_with_the_node_that_is_declared_first() -> None:
    nodes = {"a": numbers(), "b": Keep(), "c": Keep(), "d": Keep(), "e": Drop()}

    found = wrong(nodes, ["a > d", "d > b", "b > c", "c > d", "c > e"])

    assert found[0].message == "the edges form a cycle: `b` -> `c` -> `d` -> `b`"


def node(name: str, role: str) -> NodePlan:
    policy = ErrorPolicy("dead-letter", to="bad.jsonl")
    ref = ComponentRef("builtin", name, "module:Class")
    return NodePlan(name, role, ref, "", "inline", None, ("output", "error"), policy, 1, 1.0, None)


def test_finding_dead_letters_leaves_the_nodes_that_it_was_given_as_they_are() -> None:
    flow = flow_record({"a": NodeRecord("a"), "b": NodeRecord("b")}, ["a > b"])
    flow.on_error = {"policy": "dead-letter", "to": "bad.jsonl"}
    nodes = {"a": node("a", "source"), "b": node("b", "filter")}
    given_nodes = dict(nodes)

    found = find_dead_letters(flow, nodes, edges_of(["ab"]), Problems())

    assert nodes == given_nodes
    assert found.nodes["a"] is not None
    assert (found.nodes["a"].ports, found.nodes["a"].on_error) == (("output",), ErrorPolicy())
    assert [sink.name for sink in found.sinks.values()] == ["b.dead-letter"]
    assert [ends[:2] for ends in found.edges] == [("b", "b.dead-letter")]
