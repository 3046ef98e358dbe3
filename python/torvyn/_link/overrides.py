"""Overrides: the changes that a command line or a program makes to a flow before it is linked.

They change the flow's record, so link checks the result like everything else. Only the choice of
the segments that run in this process is made on the Plan, which has all of them.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from torvyn._link.plan import Plan, Segment, segments_of
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import FlowRecord, NodeRecord
from torvyn.components import ENGINES, REQUEST
from torvyn.errors import Location, quoted, suggestion

_INPUTS: Final = ("lines", *REQUEST, *ENGINES)
_OUTPUTS: Final = ("file", "console")
_CODE: Final = "link.bad-override"
_SEGMENT: Final = Location("command line", path="--segment")
_RUN: Final = Location("command line", path="--run")
RUN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Overrides:
    config: Mapping[str, str] = field(default_factory=dict)
    """`--config`: `node.key`, or `node` for the whole config, -> the value as text."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """`--set`: `section.key` -> the value as text."""
    input: str | None = None
    """`--input`: the file that the flow's only `lines`, `request` or engine source reads."""
    output: str | None = None
    """`--output`: the file that the flow's only `file` or `console` sink writes."""
    deadline_s: float | None = None
    flows: tuple[str, ...] = ()
    """The flows of this process, if it has several: `config` then has `flow.node.key`."""
    is_locked: bool = False
    """`--locked`: whether every component must match torvyn.lock."""
    checks_locks: bool = True
    """Whether components are compared with torvyn.lock."""
    segments: tuple[str, ...] = ()
    """`--segment`: the parts of the flow that run in this process; empty means all of them."""
    replica: int = 0
    """`--replica`: which of the replicas of its segments this process is."""
    run: str = ""
    """`--run`: the run that the segments of this process belong to."""
    packed_files: frozenset[str] | None = None
    """The paths of an unpacked artifact. The configs of its nodes may name them, and what it writes
    is relative to the current folder."""

    @property
    def has_segments(self) -> bool:
        """Whether this process is to run a part of the flow, or a run that has a name."""
        return bool(self.segments or self.replica or self.run)

    def apply(self, flow: FlowRecord, declared: Container[str], problems: Problems) -> FlowRecord:
        """The flow with these changes. `declared` names the components of the project, which may
        have the name of a built-in one."""
        nodes = dict(flow.nodes)
        for target, text in self._config_of(flow.name).items():
            _configure(nodes, target, text, flow.name, problems)
        builtin = {name: node for name, node in nodes.items() if node.component not in declared}
        if self.input is not None:
            fed = {edge.target.node for edge in flow.edges}
            sources = {name: node for name, node in builtin.items() if name not in fed}
            node = _only(flow.name, "--input", "source", _INPUTS, sources, problems)
            if node is not None:
                nodes[node.name] = _with_path(node, self.input)
        if self.output is not None:
            node = _only(flow.name, "--output", "sink", _OUTPUTS, builtin, problems)
            if node is not None:
                nodes[node.name] = _with_output(node, self.output, problems)
        deadline_s = flow.deadline_s if self.deadline_s is None else self.deadline_s
        return replace(flow, nodes=nodes, deadline_s=deadline_s)

    def _config_of(self, flow: str) -> Mapping[str, str]:
        """What `config` says about the nodes of a flow."""
        if not self.flows:
            return self.config
        own = f"{flow}."
        return {
            target.removeprefix(own): text
            for target, text in self.config.items()
            if target.startswith(own)
        }

    def check_flows(self, problems: Problems) -> None:
        """Reports what `config` says about no flow of this process."""
        for target in self.config if self.flows else ():
            name, dot, _ = target.partition(".")
            if name not in self.flows or not dot:
                location = Location("command line", path=f"--config {target}")
                message = f"`{target}` does not say which of the {len(self.flows)} flows it is for"
                form = f"write `--config FLOW.NODE.KEY=VALUE`; the flows are {quoted(self.flows)}"
                hint = suggestion(name, self.flows, form) if dot else form
                problems.add(_CODE, message, location, hint)


NO_OVERRIDES: Final = Overrides()


def _configure(
    nodes: dict[str, NodeRecord], target: str, text: str, flow: str, problems: Problems
) -> None:
    """Applies one `--config node.key=value`."""
    name, _, key = target.partition(".")
    location = Location("command line", path=f"--config {target}")
    if name not in nodes:
        hint = suggestion(name, nodes, f"its nodes are {quoted(nodes)}" if nodes else None)
        message = f"flow `{flow}` has no node `{name}` to configure"
        problems.add("link.node-unknown", message, location, hint)
        return
    config: Any = nodes[name].config
    if key and isinstance(config, str) and config:
        message = f"the config of `{name}` is a string and has no key `{key}`"
        problems.add(_CODE, message, location, f"replace all of it: `--config {name}=TEXT`")
        return
    changed = _with_value(config or {}, key.split("."), _parse_value(text)) if key else text
    if changed is None:
        message = f"the config of `{name}` has a value that is not a table on the path `{key}`"
        problems.add(_CODE, message, location)
        return
    nodes[name] = replace(nodes[name], config=changed)


def _with_value(table: Any, keys: list[str], value: Any) -> dict[str, Any] | None:
    """A copy of the table with the value in it; None when another value is in the way."""
    first, *rest = keys
    if not isinstance(table, dict):
        return None
    inner = _with_value(table.get(first, {}), rest, value) if rest else value
    return None if inner is None else {**table, first: inner}


def _parse_value(text: str) -> Any:
    """Numbers, booleans, lists and tables are JSON; everything else is text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if data is None or isinstance(data, str) else data


def _only(
    flow: str,
    option: str,
    role: str,
    names: tuple[str, ...],
    nodes: Mapping[str, NodeRecord],
    problems: Problems,
) -> NodeRecord | None:
    """The only node whose component is one of `names`."""
    fitting = [node for node in nodes.values() if node.component in names]
    if len(fitting) == 1:
        return fitting[0]
    kinds = dict.fromkeys("engine:*" if name.startswith("engine:") else name for name in names)
    if fitting:
        listing = quoted(node.name for node in fitting)
        message = f"flow `{flow}` has {len(fitting)} {role}s that `{option}` fits: {listing}"
        hint = f"choose one: `--config {fitting[0].name}.path=FILE`"
    else:
        message = f"flow `{flow}` has no {role} that `{option}` fits"
        hint = f"`{option}` sets the file of a built-in {role}: {quoted(kinds, 'or')}"
    problems.add(_CODE, message, Location("command line", path=option), hint)
    return None


def _with_path(node: NodeRecord, path: str) -> NodeRecord:
    return replace(node, config={**_table(node), "path": path})


def _with_output(node: NodeRecord, path: str, problems: Problems) -> NodeRecord:
    """A `file` with another path, or a `file` in the place of a `console`."""
    if node.component == "file":
        return _with_path(node, path)
    options = _table(node)
    formats = {"\n": "lines", "": "text"}
    end = options.get("end", "\n")
    if options.get("prefix") or (node.config and not options) or end not in formats:
        location = Location("command line", path="--output")
        message = f"`{node.name}` prints with its own prefix or line end, and `--output` does not"
        hint = "redirect standard output instead: `torvyn run > FILE`"
        problems.add(_CODE, message, location, hint)
        return node
    config = {"path": path, "mode": "truncate", "format": formats[end]}
    return replace(node, component="file", config=config)


def _table(node: NodeRecord) -> dict[str, Any]:
    """The node's config if it is a table; other text is replaced as a whole."""
    config: Any = node.config
    try:
        table = json.loads(config) if isinstance(config, str) else config
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def select_segments(
    plan: Plan, overrides: Overrides, has_namespace: bool, problems: Problems
) -> Plan:
    """The Plan with the choice. It keeps all nodes: their edges have the same names everywhere.
    `has_namespace`: whether its namespace does not depend on where the project is."""
    known = {segment.name: segment for segment in segments_of(plan)}
    for name in overrides.segments:
        if name not in known:
            hint = suggestion(name, known, f"its segments are {quoted(known)}")
            message = f"flow `{plan.name}` has no segment `{name}`"
            problems.add("link.segment-unknown", message, _SEGMENT, hint)
    if overrides.run and not RUN_NAME.fullmatch(overrides.run):
        message = f"`{overrides.run}` cannot be the name of a run"
        problems.add(_CODE, message, _RUN, "use letters, digits, `-` and `_`, 64 at most")
    _check_broker(plan, overrides, has_namespace, problems)
    if plan.cluster is None:
        return plan
    segments = tuple(dict.fromkeys(overrides.segments))
    _check_replica([known[name] for name in segments if name in known], overrides.replica, problems)
    cluster = replace(plan.cluster, segments=segments, replica=overrides.replica, run=overrides.run)
    return replace(plan, cluster=cluster)


def _check_broker(
    plan: Plan, overrides: Overrides, has_namespace: bool, problems: Problems
) -> None:
    """Processes that share a flow need a broker, and its name there."""
    location = _SEGMENT if overrides.segments or overrides.replica else _RUN
    if plan.cluster is None:
        message = f"flow `{plan.name}` has no edge that could leave this process"
        hint = 'set `carrier = "nats"` on the edges between its segments'
        problems.add("link.no-broker", message, location, hint)
    elif not plan.cluster.nats:
        message = f"flow `{plan.name}` cannot run in several processes: it has no broker"
        hint = 'set `nats = "nats://HOST:4222"` in `[cluster]`, or start one: torvyn cluster up'
        problems.add("link.no-broker", message, location, hint)
    elif overrides.segments and not has_namespace and not _is_here(plan.cluster.nats):
        message = (
            f"the segments of flow `{plan.name}` may run on several machines, and would not find "
            f"each other: the namespace `{plan.cluster.namespace}` is that of this checkout"
        )
        hint = f'set `namespace = "{plan.cluster.project}"` in `[cluster]`'
        problems.add("link.no-namespace", message, _SEGMENT, hint)


def _is_here(addresses: str) -> bool:
    """Whether only processes of this machine reach the broker."""
    urls = (each.strip() for each in addresses.split(","))
    hosts = [urlsplit(url if "//" in url else f"//{url}").hostname or "" for url in urls]
    return all(host == "localhost" or _is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_replica(segments: Sequence[Segment], replica: int, problems: Problems) -> None:
    """A replica that does not exist would own the partitions of another one."""
    location = Location("command line", path="--replica")
    if replica and not segments:
        message = "`--replica` has no meaning without `--segment`: one process runs everything"
        problems.add("link.replica-unknown", message, location, "name the segment: --segment NAME")
    for segment in segments:
        if replica >= segment.replicas:
            message = f"segment `{segment.name}` has no replica {replica}"
            last = segment.replicas - 1
            hint = f"its replicas are 0 to {last}" if last else "it has one, replica 0"
            how = "; `place = { replicas = N }` on its node gives it more"
            problems.add("link.replica-unknown", message, location, hint + how)
