"""A Plan becomes groups: what each needs, and what carries each edge."""

from __future__ import annotations

import json

import pytest

import torvyn
from torvyn._cluster.placement import Placement, place
from torvyn._link.plan import PlacePlan
from torvyn.errors import LinkError


def flow() -> torvyn.Flow:
    flow = torvyn.Flow().add("readings", torvyn.source(["1"]))
    flow.add("clean", torvyn.filter(lambda e: True))
    flow.add("totals", torvyn.filter(lambda e: True), place={"replicas": 2, "gpus": 0.5})
    return flow.add("report", torvyn.sink(print), place={"resources": {"printer": 1}})


@pytest.fixture
def placed() -> Placement:
    made = flow().connect("readings", "clean").connect("clean", "totals", carrier="nats")
    return place(made.connect("totals", "report", carrier="nats").plan)


def test_nodes_joined_by_memory_are_one_group(placed: Placement) -> None:
    assert [group.nodes for group in placed.groups] == [
        ("readings", "clean"),
        ("totals",),
        ("report",),
    ]
    assert [group.replicas for group in placed.groups] == [1, 2, 1]
    assert placed.replicas == 4


def test_the_place_of_a_node_is_that_of_its_group(placed: Placement) -> None:
    assert placed.group("readings").needs == PlacePlan()
    assert placed.group("report").needs == PlacePlan(resources={"printer": 1})


def test_the_text_names_groups_needs_and_edges(placed: Placement) -> None:
    assert placed.render("ray") == (
        "flow main on ray: 3 groups, 4 processes\n"
        "\n"
        "groups\n"
        "  readings  1 replica   1 CPU             readings clean\n"
        "  totals    2 replicas  1 CPU, 0.5 GPUs   totals\n"
        "  report    1 replica   1 CPU, 1 printer  report\n"
        "\n"
        "edges\n"
        "  readings:output  ->  clean   memory of readings  64 elements, 1MiB\n"
        "  clean:output     ->  totals  nats                256 batches per key, 256MiB\n"
        "  totals:output    ->  report  nats                256 batches per key, 256MiB\n"
    )


def test_the_json_has_the_same(placed: Placement) -> None:
    fields = json.loads(json.dumps(placed.to_dict()))

    assert fields["groups"][1]["name"] == "totals"
    assert fields["groups"][1]["replicas"] == 2
    assert fields["edges"][0]["groups"] == ["readings", "readings"]
    assert fields["edges"][1]["carrier"] == "nats"


def test_an_edge_on_a_disk_is_refused() -> None:
    made = torvyn.Flow().add("a", torvyn.source(["1"])).add("b", torvyn.sink(print))

    with pytest.raises(LinkError) as caught:
        place(made.connect("a", "b", carrier="disk").plan)

    assert caught.value.code == "cluster.local-edge"
