"""The types of options and the manifest's tables have the same values and keys."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import torvyn
from torvyn._contract.options import (
    EdgeOptions,
    FlowOptions,
    NodeOptions,
    PlaceOptions,
    PolicyOptions,
)
from torvyn._manifest import records
from torvyn._manifest.records import EdgeRecord, NodeRecord
from torvyn._manifest.schema import Table


def names_of(record: type, *, without: set[str]) -> set[str]:
    return {field.name for field in fields(record)} - {"location", "locations"} - without


def literals(hint: Any) -> tuple[str, ...]:
    """The texts that a type allows; none if it allows all."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(text for part in get_args(hint) for text in literals(part))


@pytest.mark.parametrize(
    ("options", "table"),
    [
        (FlowOptions, records.FLOW),
        (NodeOptions, records.NODE),
        (EdgeOptions, records.EDGE),
        (PolicyOptions, records.ON_ERROR),
    ],
)
def test_values_are_those_of_the_manifest(options: Any, table: Table) -> None:
    hints = {name: literals(hint) for name, hint in get_type_hints(options).items()}
    keys = [key for key in table.keys if key.choices and hints.get(key.attribute)]

    assert keys
    assert [hints[key.attribute] for key in keys] == [key.choices for key in keys]


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
