"""The types of options and the manifest's tables have the same values and keys."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_args

import torvyn
from torvyn._contract.options import (
    Backpressure,
    EdgeOptions,
    FlowOptions,
    LastResort,
    NodeOptions,
    PlaceOptions,
    PolicyName,
    PolicyOptions,
    Priority,
    RunMode,
)
from torvyn._manifest import records
from torvyn._manifest.records import EdgeRecord, NodeRecord


def names_of(record: type, *, without: set[str]) -> set[str]:
    return {field.name for field in fields(record)} - {"location", "locations"} - without


def test_values_are_those_of_the_manifest() -> None:
    then = records.ON_ERROR.key("then")

    assert get_args(Backpressure) == records.BACKPRESSURE
    assert get_args(Priority) == records.PRIORITIES
    assert get_args(RunMode) == records.RUN_MODES
    assert get_args(PolicyName) == records.POLICIES
    assert then is not None
    assert get_args(LastResort) == then.choices


def test_keys_of_a_policy_are_those_of_the_manifest() -> None:
    assert set(PolicyOptions.__annotations__) == set(records.ON_ERROR.names())


def test_keys_of_a_place_are_those_of_the_manifest() -> None:
    assert set(PlaceOptions.__annotations__) == set(records.PLACE.names())


def test_options_of_nodes_and_edges_are_the_fields_of_their_records() -> None:
    node = names_of(NodeRecord, without={"name", "component"})
    edge = names_of(EdgeRecord, without={"source", "target"})

    assert set(NodeOptions.__annotations__) == node
    assert set(EdgeOptions.__annotations__) == edge


def test_options_of_a_test_run_are_keywords_of_a_flow() -> None:
    keywords = set(inspect.signature(torvyn.Flow).parameters) - {"stages"}

    # `run_flow` has names of its own for these two.
    assert set(FlowOptions.__annotations__) == keywords - {"clock", "queue_depth"}
