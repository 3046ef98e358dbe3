"""Building a flow in a program: nodes, edges, and the Plan they make.

Drafts go through the same `link` as a manifest, so both are judged by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, Unpack

from torvyn.contract import ComponentLike, EdgeOptions, NodeOptions, as_component
from torvyn.contract.inspection import is_instance
from torvyn.errors import FlowError
from torvyn.link import link_flow
from torvyn.link.component_traits import role_of
from torvyn.link.draft import EdgeDraft, FlowDraft, NodeDraft
from torvyn.link.plan import Plan


class FlowBuilder:
    """The part of a `Flow` that exists before it runs."""

    def __init__(self, draft: FlowDraft, stages: Iterable[ComponentLike]) -> None:
        self._draft = draft
        self._plan: Plan | None = None
        previous = None
        for stage in stages:
            component = as_component(stage)
            name = self._free_name(role_of(component))
            draft.nodes[name] = NodeDraft(name, component)
            if previous is not None:
                draft.edges.append(EdgeDraft(previous, name))
            previous = name

    @property
    def name(self) -> str:
        return self._draft.name

    def add(
        self, name: str, component: str | ComponentLike, **options: Unpack[NodeOptions]
    ) -> Self:
        """Adds a node: a component, or the name of a built-in.

        Options are those of `[flow.N.nodes.X]`.
        """
        self._must_be_new()
        if name in self._draft.nodes:
            raise FlowError("reactor.name-taken", f"the flow has a node `{name}` already")
        thing = component if is_instance(component, str) else as_component(component)
        self._draft.nodes[name] = NodeDraft(name, thing, **options)
        self._plan = None
        return self

    def connect(self, source: str, target: str, **options: Unpack[EdgeOptions]) -> Self:
        """Adds an edge, `"node"` or `"node:port"`. Options are those of `[[flow.N.edges]]`."""
        self._must_be_new()
        from_node, _, port = source.partition(":")
        to_node, _, target_port = target.partition(":")
        edge = EdgeDraft(from_node, to_node, port or None, target_port or None, **options)
        self._draft.edges.append(edge)
        self._plan = None
        return self

    @property
    def plan(self) -> Plan:
        """The linked plan; raises `LinkError` when the flow is not one."""
        if self._plan is None:
            self._plan = link_flow(self._draft, open_start=True, open_end=True)
        return self._plan

    def _free_name(self, role: str) -> str:
        taken, number = self._draft.nodes, 2
        if role not in taken:
            return role
        while f"{role}-{number}" in taken:
            number += 1
        return f"{role}-{number}"

    def _must_be_new(self) -> None:
        raise NotImplementedError

    # What a flow can be used for follows from its ends.

    def _must_be_closed(self, what: str) -> None:
        if self.plan.tail is not None:
            raise FlowError(
                "reactor.no-sink",
                f"flow `{self.name}` has no sink to {what} it into",
                hint="add a sink, or iterate the flow: `for element in flow`",
            )
        self._must_have_source()

    def _must_be_open(self, what: str) -> None:
        if self.plan.tail is None:
            sinks = [node.name for node in self.plan.nodes if node.role == "sink"]
            raise FlowError(
                "reactor.has-sink",
                f"flow `{self.name}` ends in a sink, `{sinks[0]}`: there is nothing to {what}",
                hint="use flow.run(), or leave the sink out",
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
                hint="leave the source out: a flow without one is fed by its caller",
            )
