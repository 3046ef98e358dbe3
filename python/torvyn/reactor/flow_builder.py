"""FlowBuilder: the nodes and edges that a program adds to a flow, and the Plan that they become.

It makes the records that the manifest's parser makes, so both are linked by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, Unpack

from torvyn._contract.functions import Stage, as_component
from torvyn._contract.inspection import is_instance
from torvyn._contract.options import EdgeOptions, NodeOptions
from torvyn._contract.roles import Component
from torvyn._link.component_traits import role_of
from torvyn._link.flow_linker import link_flow
from torvyn._link.plan import Plan
from torvyn._manifest.records import EdgeRecord, FlowRecord, NodeRecord, PortRef
from torvyn.errors import FlowError


class FlowBuilder:
    """The side of a `Flow` that exists before it runs."""

    def __init__(self, record: FlowRecord, stages: Iterable[Stage]) -> None:
        self._record = record
        self._plan: Plan | None = None
        previous = None
        for stage in stages:
            component = component_of(stage)
            name = self._free_name(_title(component))
            record.nodes[name] = NodeRecord(name, component)
            if previous is not None:
                record.edges.append(EdgeRecord(PortRef(previous), PortRef(name)))
            previous = name

    @property
    def name(self) -> str:
        return self._record.name

    def add(self, name: str, component: Stage, **options: Unpack[NodeOptions]) -> Self:
        """Adds a node: a component, or the name of a built-in one.

        The options are those of `[flow.N.nodes.X]`.
        """
        self._must_be_new()
        if name in self._record.nodes:
            raise FlowError("reactor.name-taken", f"the flow already has a node `{name}`")
        self._record.nodes[name] = NodeRecord(name, component_of(component), **options)
        self._plan = None
        return self

    def connect(self, source: str, target: str, **options: Unpack[EdgeOptions]) -> Self:
        """Adds an edge from `"node"` or `"node:port"`. The options are those of
        `[[flow.N.edges]]`."""
        self._must_be_new()
        edge = EdgeRecord(PortRef.parse(source), PortRef.parse(target), **options)
        self._record.edges.append(edge)
        self._plan = None
        return self

    @property
    def plan(self) -> Plan:
        """The linked plan; raises `LinkError` when the flow has problems."""
        if self._plan is None:
            self._plan = link_flow(self._record, open_start=True, open_end=True)
        return self._plan

    def _free_name(self, title: str) -> str:
        names, number = self._record.nodes, 2
        if title not in names:
            return title
        while f"{title}-{number}" in names:
            number += 1
        return f"{title}-{number}"

    def _must_be_new(self) -> None:
        raise NotImplementedError

    # The ends of a flow decide how it can be used.

    def _must_be_closed(self, what: str) -> None:
        if self.plan.tail is not None:
            raise FlowError(
                "reactor.no-sink",
                f"flow `{self.name}` cannot {what}: it has no sink",
                hint="add a sink, or iterate the flow: `for element in flow`",
            )
        self._must_have_source()

    def _must_be_open(self) -> None:
        if self.plan.tail is None:
            sinks = [node.name for node in self.plan.nodes if node.role == "sink"]
            raise FlowError(
                "reactor.has-sink",
                f"flow `{self.name}` ends in a sink, `{sinks[0]}`, and has no outputs to iterate",
                hint="use flow.run(), or remove the sink",
            )
        self._must_have_source()

    def _must_have_source(self) -> None:
        if self.plan.head is not None:
            raise FlowError(
                "reactor.no-source",
                f"flow `{self.name}` has no source",
                hint="add a source, or feed the flow: `flow.feed(item)`",
            )

    def _must_be_fed(self) -> None:
        if self.plan.head is None:
            sources = [node.name for node in self.plan.nodes if node.role == "source"]
            raise FlowError(
                "reactor.has-source",
                f"the flow has a source, `{sources[0]}`, and cannot be fed",
                hint="remove the source: the caller feeds a flow that has none",
            )


def component_of(stage: Stage) -> str | Component:
    """The component of a stage, or the name of a built-in one as it is."""
    return stage if is_instance(stage, str) else as_component(stage)


def _title(component: str | Component) -> str:
    """What the node of a stage is called: the built-in component, or else the role."""
    return component.rpartition(":")[2] if isinstance(component, str) else role_of(component)
