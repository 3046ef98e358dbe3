"""Small flows for the tests of link: `plan({"a": numbers(), "b": Drop()}, ["a > b"])`."""

from __future__ import annotations

from typing import Any

import pytest

import torvyn
from torvyn import link
from torvyn.errors import Diagnostic, LinkError
from torvyn.link import EdgeDraft, FlowDraft, NodeDraft, Plan
from torvyn.manifest import resolve

SETTINGS = resolve(environ={})


class Keep(torvyn.Filter):
    def evaluate(self, element: torvyn.Element) -> bool:
        return True


class Drop(torvyn.Sink):
    unit = "things"

    def push(self, element: torvyn.Element) -> None:
        pass


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
