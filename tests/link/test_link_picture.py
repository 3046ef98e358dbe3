"""A Plan as a picture: every node once, every edge once, nothing on top of anything else."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from flow_records import Drop, Keep, numbers, plan
from hypothesis import given, settings
from hypothesis import strategies as st

import torvyn
from torvyn._link.picture import render_dot, render_mermaid, render_svg
from torvyn._link.plan import ComponentRef, EdgePlan, ErrorPolicy, NodePlan, Plan, RuntimePlan

ROLES = ("source", "processor", "filter", "router", "aggregator", "sink")
HOSTILE = 'a"b<c>&d`e#f\\g\x1b[31m\u202eh\ud800i\x00'


class ByLevel(torvyn.Router):
    ports = ("alerts", "rest")

    def route(self, element: torvyn.Element) -> str:
        return "rest"


class Rectangle(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, shape: ElementTree.Element) -> Rectangle:
        left, top = float(shape.attrib["x"]), float(shape.attrib["y"])
        width, height = float(shape.attrib["width"]), float(shape.attrib["height"])
        return cls(left, top, left + width, top + height)

    def overlaps(self, other: Rectangle) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom


def node(name: str, role: str) -> NodePlan:
    component = ComponentRef("project", f"component of {name}", "m:C")
    return NodePlan(name, role, component, "", "inline", None, (), ErrorPolicy(), 0, 1.0, None)


def bare_plan(nodes: list[NodePlan], edges: list[EdgePlan]) -> Plan:
    runtime = RuntimePlan(0, 32, 1e-4, 2.0, 5.0, None)
    return Plan("main", tuple(nodes), tuple(edges), "", "normal", None, runtime, "off", "none", "")


def branches() -> Plan:
    """Two sources, a router, and an edge that spans three columns."""
    nodes = {"a": numbers(), "b": numbers(), "split": ByLevel(), "keep": Keep(), "end": Drop()}
    edges = ["a > split", "split:alerts > end", "split:rest > keep", "keep > end", "b > end"]
    return plan({**nodes, "lost": Drop()}, [*edges, "a > lost"])


few = settings(max_examples=40)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(1, 12))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = draw(st.lists(ends.filter(lambda pair: pair[0] < pair[1]), max_size=24))
    nodes = [node(f"n{at}", draw(st.sampled_from(ROLES))) for at in range(count)]
    carrier = st.sampled_from(("memory", "disk", "nats"))
    port = st.sampled_from(("output", "error", "a port with a long name"))
    edges = [EdgePlan(f"n{a}", draw(port), f"n{b}", carrier=draw(carrier)) for a, b in pairs]
    return bare_plan(nodes, edges)


def shapes(svg: str, kind: str) -> list[ElementTree.Element]:
    """All shapes of a class, in the order of the Plan."""
    every = ElementTree.fromstring(svg).iter()
    return [each for each in every if kind in each.get("class", "").split()]


def node_boxes(made: Plan) -> dict[str, Rectangle]:
    rectangles = [Rectangle.of(each) for each in shapes(render_svg(made), "node")]
    names = [each.name for each in made.nodes]
    return dict(zip(names, rectangles, strict=True))


def ends_of(path: ElementTree.Element) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where a line begins and ends; a last `H` keeps the height before it."""
    text = path.attrib["d"]
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", text)]
    start = (numbers[0], numbers[1])
    if "C" not in text:
        return start, (numbers[-1], numbers[1])
    last = text.rpartition("C")[2]
    curve, *straight = (re.findall(r"-?[\d.]+", part) for part in last.split("H"))
    x = straight[-1][0] if straight else curve[4]
    return start, (float(x), float(curve[5]))


@few
@given(plans())
def test_no_node_or_queue_covers_another(made: Plan) -> None:
    svg = render_svg(made)
    boxes = [Rectangle.of(each) for each in (*shapes(svg, "node"), *shapes(svg, "queue"))]

    assert len(boxes) == len(made.nodes) + len(made.edges)
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


@few
@given(plans())
def test_every_edge_is_one_line_from_its_source_to_its_target(made: Plan) -> None:
    boxes, lines = node_boxes(made), shapes(render_svg(made), "edge")

    for edge, line in zip(made.edges, lines, strict=True):
        source, target = boxes[edge.source], boxes[edge.target]
        (x, y), (to_x, to_y) = ends_of(line)
        assert x == pytest.approx(source.right, abs=0.2)
        assert source.top < y < source.bottom
        assert to_x == pytest.approx(target.left - 6, abs=0.2)
        assert target.top < to_y < target.bottom


@few
@given(plans())
def test_everything_is_inside_the_picture(made: Plan) -> None:
    svg = render_svg(made)
    page = Rectangle.of(shapes(svg, "page")[0])
    x, y = map(float, re.findall(r"translate\(([-\d.]+) ([-\d.]+)\)", svg)[0])

    for box in map(Rectangle.of, (*shapes(svg, "node"), *shapes(svg, "queue"))):
        assert page.left <= box.left + x <= box.right + x <= page.right
        assert page.top <= box.top + y <= box.bottom + y <= page.bottom


@few
@given(plans())
def test_the_other_formats_name_every_edge_once(made: Plan) -> None:
    dot, mermaid = render_dot(made), render_mermaid(made)

    assert dot.count(" -> ") == len(made.edges)
    assert len(re.findall(r"^  n\d+ -\.?->", mermaid, re.MULTILINE)) == len(made.edges)
    assert len(re.findall(r"^  n\d+\[", mermaid, re.MULTILINE)) == len(made.nodes)


def test_a_chain_is_a_straight_line() -> None:
    made = plan({"a": numbers(), "b": Keep(), "c": Drop()}, ["a > b", "b > c"])

    assert [line for line in shapes(render_svg(made), "edge") if "C" in line.attrib["d"]] == []


def test_queues_show_their_ports_and_their_capacity() -> None:
    svg = render_svg(branches())

    labels = [each.text for each in shapes(svg, "label")]
    assert labels.count("64 elements") == labels.count("1MiB, block") == 6
    assert {"alerts", "rest"} <= set(labels)


def test_a_durable_edge_is_dashed_and_names_its_carrier() -> None:
    ends = [node("a", "source"), node("b", "sink")]
    made = bare_plan(ends, [EdgePlan("a", "output", "b", carrier="nats", max_waiting=8)])

    assert [each.text for each in shapes(render_svg(made), "label")] == [
        "nats, 256MiB",
        "8 batches per key",
        "block",
    ]
    assert shapes(render_svg(made), "durable")
    assert "style=dashed" in render_dot(made)
    assert "-.->" in render_mermaid(made)


def test_text_of_a_manifest_cannot_leave_its_place() -> None:
    made = bare_plan([node(HOSTILE, "source")], [])

    assert [each.text for each in shapes(render_svg(made), "name")] == [
        'a"b<c>&d`e#f\\g\\x1b[31m\\u202eh\\u…'
    ]
    assert "b#60;c#62;#38;d#96;e#35;f" in render_mermaid(made)
    assert r'"a\"b<c>&d`e#f\\g\\x1b[31m\\u202eh' in render_dot(made)
    for text in (render_svg(made), render_mermaid(made), render_dot(made)):
        assert not set("\x1b\x00\u202e\ud800") & set(text)


def test_no_format_shows_a_secret() -> None:
    made = replace(
        bare_plan([node("s3cret-name", "source")], []), secrets=frozenset({"s3cret-name"})
    )

    for render in (render_svg, render_mermaid, render_dot):
        assert "s3cret" not in render(made)


def test_both_schemes_have_a_colour_for_every_role() -> None:
    light, _, dark = render_svg(branches()).partition("prefers-color-scheme:dark")

    assert all(f".{role}{{color:" in part for role in ROLES for part in (light, dark))


def test_a_flow_without_edges_is_drawn() -> None:
    made = bare_plan([node("alone", "source")], [])

    assert list(node_boxes(made)) == ["alone"]
