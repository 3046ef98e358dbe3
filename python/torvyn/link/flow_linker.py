"""A draft -> a Plan: every name resolved, every edge checked, nothing started.

All problems of a flow are raised at once in one `LinkError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from torvyn.contract.inspection import is_instance
from torvyn.errors import LinkError, Location
from torvyn.link.checks.requests import check_requests
from torvyn.link.checks.router_ports import check_router_ports
from torvyn.link.checks.topology import Graph, judge, order
from torvyn.link.component_loader import Library
from torvyn.link.component_traits import ERROR, INPUT, OUTPUT
from torvyn.link.defaults import audit_file, defaults_of
from torvyn.link.draft import EdgeDraft, FlowDraft, NodeDraft
from torvyn.link.error_policy import FAIL_FAST, Handling, read_policy
from torvyn.link.node_linker import NodeLinker
from torvyn.link.option_values import near, override, place_of, value_of
from torvyn.link.plan import EdgePlan, NodePlan, Plan
from torvyn.manifest import Settings
from torvyn.manifest.problems import Problems, quoted, suggestion
from torvyn.manifest.process_settings import process_settings
from torvyn.manifest.records import ComponentRecord
from torvyn.manifest.schema.tables import EDGE, FLOW

LETTERS = "dead-letter"

_FOLDER: Final = Path()
_QUEUE: Final = {"queue_depth": "depth", "queue_bytes": "bytes", "backpressure": "backpressure"}
"""What a flow says of its queues, and what a Plan calls it."""
_EDGE: Final = {**_QUEUE, "low_watermark": "low_watermark"}


def link_flow(
    draft: FlowDraft,
    *,
    components: Iterable[ComponentRecord] = (),
    folder: str | Path = "",
    settings: Settings | None = None,
    overrides: Mapping[str, str] | None = None,
    secrets: frozenset[str] = frozenset(),
    open_start: bool = False,
    open_end: bool = False,
) -> Plan:
    """The Plan of a draft; raises one `LinkError` for all that is wrong.

    A flow with `open_start` may lack a source (its caller feeds it), one with `open_end` a sink
    (its caller iterates it). Without `settings`, the environment and the user's config are read.
    """
    problems = Problems()
    problems.secrets |= secrets
    declared = {record.name: record for record in components}
    library = Library(declared, Path(folder) if folder else _FOLDER)
    linker = FlowLinker(draft, library, settings or process_settings(), problems)
    plan = linker.link(overrides or {}, open_start=open_start, open_end=open_end)
    if problems:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    return replace(plan, secrets=secrets) if secrets else plan


class FlowLinker:
    """Links one draft; problems are collected, so the Plan is only good when there are none."""

    def __init__(
        self,
        draft: FlowDraft,
        library: Library,
        settings: Settings,
        problems: Problems,
        *,
        is_whole: bool = True,
    ) -> None:
        self._draft = draft
        self._problems = problems
        self._settings = settings
        self._library = library
        self._path = f"flow.{draft.name}"
        self._nodes: dict[str, NodePlan | None] = {}
        self._edges: list[EdgePlan] = []
        self._seen: set[tuple[str, str, str]] = set()
        self._hidden: dict[str, NodePlan] = {}
        self._is_whole = is_whole
        """Whether every edge found its nodes; if not, what can be reached is not known."""
        self._defaults = defaults_of(settings)
        self._node_linker = NodeLinker(draft.name, library, self._defaults)

    def link(self, overrides: Mapping[str, str], *, open_start: bool, open_end: bool) -> Plan:
        draft = self._draft
        configs = {name: node.config for name, node in draft.nodes.items()}
        if overrides:
            override(configs, overrides, draft.name, self._problems)
        handlings = {node.name: self._handling(node) for node in draft.nodes.values()}
        named = [
            node.component for node in draft.nodes.values() if is_instance(node.component, str)
        ]
        if named:
            self._library.warm(named)
        fed = {edge.target for edge in draft.edges}
        for name, node in draft.nodes.items():
            self._nodes[name] = self._node_linker.link(
                node, configs[name], handlings[name], self._problems, has_input=name in fed
            )
        for index, edge in enumerate(draft.edges):
            self._link_edge(edge, f"{self._path}.edges[{index}]")
        self._settle_letters(handlings)
        if self._is_whole:
            check_router_ports(self._nodes, draft.nodes, self._edges, self._path, self._problems)
            check_requests(self._nodes, self._edges, self._problems)
        judge(self._graph(), self._problems, open_start=open_start, open_end=open_end)
        return self._plan()

    def _value(self, name: str) -> Any:
        return value_of(FLOW, name, self._draft, self._path, self._problems)

    def _handling(self, node: NodeDraft) -> Handling:
        if node.on_error is not None:
            place = place_of(node, "on_error", f"{self._path}.nodes.{node.name}.on_error")
            return read_policy(node.on_error, place, self._problems)
        if self._draft.on_error is None:
            return FAIL_FAST
        place = place_of(self._draft, "on_error", f"{self._path}.on_error")
        return read_policy(self._draft.on_error, place, self._problems)

    def _link_edge(self, edge: EdgeDraft, path: str) -> None:
        ends_known = self._knows(edge, edge.source, path, "from")
        ends_known = self._knows(edge, edge.target, path, "to") and ends_known
        port = edge.port or OUTPUT
        if ends_known:
            port = self._check_ports(edge, path)
        found = {
            field: value_of(EDGE, name, edge, path, self._problems)
            for name, field in _EDGE.items()
            if getattr(edge, name) is not None
        }
        if not ends_known:
            self._is_whole = False
            return
        place = place_of(edge, "from", path)
        ends = (edge.source, port, edge.target)
        if ends in self._seen:
            message = f"there are two edges from `{edge.source}:{port}` to `{edge.target}`"
            hint = "every element would arrive twice; take one of them out"
            self._problems.add("link.edge-repeated", message, place, hint)
        self._seen.add(ends)
        self._edges.append(self._edge(ends, place, found))

    def _edge(
        self,
        ends: tuple[str, str, str],
        place: Location | None,
        found: Mapping[str, Any] = MappingProxyType({}),
    ) -> EdgePlan:
        """An edge with the flow's values where it has none of its own."""
        draft = self._draft
        given = {
            field: self._value(name)
            for name, field in _QUEUE.items()
            if getattr(draft, name) is not None
        }
        for field, value in found.items():
            if value is not None:
                given[field] = value
        known = {field: value for field, value in given.items() if value is not None}
        return EdgePlan(*ends, **known, location=place)

    def _knows(self, edge: EdgeDraft, name: str, path: str, key: str) -> bool:
        if name in self._nodes:
            return True
        place = place_of(edge, key, f"{path}.{key}")
        known = f"its nodes are {quoted(self._nodes)}" if self._nodes else "it has no nodes"
        hint = suggestion(name, self._nodes, known)
        message = f"flow `{self._draft.name}` has no node `{name}`"
        self._problems.add("link.node-unknown", message, place, hint)
        return False

    def _check_ports(self, edge: EdgeDraft, path: str) -> str:
        if (edge.target_port or INPUT) != INPUT:
            message = f"`{edge.target}` has no input port `{edge.target_port}`"
            place = place_of(edge, "to", f"{path}.to")
            hint = f"the input port of every node is `{INPUT}`"
            self._problems.add("link.input-port-unknown", message, place, hint)
        node = self._nodes[edge.source]
        if node is None or node.role == "sink":
            return edge.port or OUTPUT
        ports = [port for port in node.ports if port != ERROR]
        port = edge.port or (ports[0] if len(ports) == 1 else OUTPUT)
        if ports and port not in ports:
            listing = f"its ports are {quoted(ports)}" if ports[1:] else f"its port is `{ports[0]}`"
            message = f"{node.role} `{edge.source}` has no output port `{port}`"
            place = place_of(edge, "from", f"{path}.from")
            self._problems.add("link.port-unknown", message, place, near(port, ports, listing))
        return port

    def _settle_letters(self, handlings: Mapping[str, Handling]) -> None:
        """Edges for dead letters; a policy of the flow is left out where it cannot apply."""
        for name, node in list(self._nodes.items()):
            to = handlings[name].to
            if node is None or to is None:
                continue
            is_own = self._draft.nodes[name].on_error is not None
            if self._can_keep_letters(node, to, is_own):
                target = self._letter_target(name, to, is_own)
                if target is not None:
                    place = self._policy_place(name, is_own)
                    self._edges.append(self._edge((name, ERROR, target), place))
            elif not is_own:
                ports = tuple(port for port in node.ports if port != ERROR)
                self._nodes[name] = replace(node, ports=ports, on_error=FAIL_FAST.policy)

    def _can_keep_letters(self, node: NodePlan, to: str, is_own: bool) -> bool:
        if node.role == "source":
            if is_own:
                message = f"`{node.name}` is a source: there is no element to set aside"
                self._complain(node.name, is_own, message, "use `retry` or `fail-fast`")
            return False
        return is_own or not self._leads(to.partition(":")[0], node.name)

    def _leads(self, start: str, goal: str) -> bool:
        """Whether there is a way from one node to another."""
        seen, waiting = set[str](), [start]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += [edge.target for edge in self._edges if edge.source == name]
        return goal in seen

    def _letter_target(self, name: str, to: str, is_own: bool) -> str | None:
        """The node that gets the letters; for a file, a hidden sink that writes it."""
        node, _, port = to.partition(":")
        if node in self._nodes:
            if port not in ("", INPUT):
                message = f"`{node}` has no input port `{port}`"
                self._complain(name, is_own, message, None, "link.input-port-unknown")
            return node
        if os.sep not in to and "." not in to:
            hint = suggestion(node, self._nodes, "a file has a dot or a slash in its name")
            message = f"dead letters of `{name}` go to `{node}`, which is no node"
            self._complain(name, is_own, message, hint, "link.node-unknown")
            return None
        if to not in self._hidden:
            sink = NodeDraft(f"{name}.{LETTERS}", "file", config={"path": to, "format": "json"})
            sink.location = self._policy_place(name, is_own)
            linked = self._node_linker.link(sink, sink.config, FAIL_FAST, self._problems)
            if linked is None:
                return None
            self._hidden[to] = linked
        return self._hidden[to].name

    def _policy_place(self, name: str, is_own: bool) -> Any:
        if is_own:
            node = self._draft.nodes[name]
            return place_of(node, "on_error", f"{self._path}.nodes.{name}.on_error")
        return place_of(self._draft, "on_error", f"{self._path}.on_error")

    def _complain(
        self, name: str, is_own: bool, message: str, hint: str | None, code: str = "link.bad-policy"
    ) -> None:
        self._problems.add(code, message, self._policy_place(name, is_own), hint)

    def _graph(self) -> Graph:
        hidden = {node.name: node for node in self._hidden.values()}
        nodes = {**self._nodes, **hidden} if hidden else self._nodes
        roles = {name: node.role if node else None for name, node in nodes.items()}
        places = {name: node.location for name, node in self._draft.nodes.items()}
        return Graph(
            roles, self._edges, places, self._draft.location, frozenset(hidden), self._is_whole
        )

    def _plan(self) -> Plan:
        nodes = {name: node for name, node in self._nodes.items() if node is not None}
        nodes |= {node.name: node for node in self._hidden.values()}
        settings = self._settings
        return Plan(
            name=self._draft.name,
            nodes=tuple(nodes[name] for name in order(nodes, self._edges) if name in nodes),
            edges=tuple(self._edges),
            description=self._draft.description or "",
            priority=self._value("priority") or "normal",
            deadline_s=self._value("deadline"),
            runtime=self._defaults.runtime,
            observability=settings["observability.level"],
            audit=settings["security.audit"],
            audit_file=audit_file(settings, self._library.folder),
            warnings=self._problems.warnings(),
        )
