"""Small flows for the tests of link: `plan({"a": numbers(), "b": Drop()}, ["a > b"])`."""

from __future__ import annotations

from typing import Any

import pytest

import torvyn
from torvyn._link.flow_linker import link_flow
from torvyn._link.plan import Plan
from torvyn._manifest.records import EdgeRecord, FlowRecord, NodeRecord, PortRef
from torvyn._manifest.settings import resolve
from torvyn.errors import Diagnostic, LinkError

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


def flow_record(nodes: dict[str, Any], edges: list[str], **options: Any) -> FlowRecord:
    records = {
        name: node if isinstance(node, NodeRecord) else NodeRecord(name, node)
        for name, node in nodes.items()
    }
    return FlowRecord("main", nodes=records, edges=[edge(text) for text in edges], **options)


def edge(text: str) -> EdgeRecord:
    source, target = text.split(" > ")
    return EdgeRecord(PortRef.parse(source), PortRef.parse(target))


def plan(nodes: dict[str, Any], edges: list[str], **options: Any) -> Plan:
    return link_flow(flow_record(nodes, edges, **options), settings=SETTINGS)


def wrong(nodes: dict[str, Any], edges: list[str], **options: Any) -> tuple[Diagnostic, ...]:
    with pytest.raises(LinkError) as caught:
        plan(nodes, edges, **options)
    return caught.value.diagnostics


def codes(nodes: dict[str, Any], edges: list[str], **options: Any) -> list[str]:
    return [found.code for found in wrong(nodes, edges, **options)]
