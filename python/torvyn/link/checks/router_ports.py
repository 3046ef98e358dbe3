"""The ports of a router: each has an edge or is in `ignored_ports`, so that no element is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torvyn.link.component_traits import ERROR
from torvyn.link.option_values import near, place_of, value_of
from torvyn.link.plan import EdgePlan, NodePlan
from torvyn.manifest.problems import Problems, quoted
from torvyn.manifest.records import NodeRecord
from torvyn.manifest.schema.tables import NODE


def check_router_ports(
    nodes: Mapping[str, NodePlan | None],
    records: Mapping[str, NodeRecord],
    edges: Sequence[EdgePlan],
    path: str,
    problems: Problems,
) -> None:
    """Adds a problem for each port without an edge, and for unknown names in `ignored_ports`."""
    for name, record in records.items():
        node = nodes[name]
        if node is None or (node.role != "router" and record.ignored_ports is None):
            continue
        own = f"{path}.nodes.{name}"
        ignored: Sequence[str] = value_of(NODE, "ignored_ports", record, own, problems) or ()
        ports = [port for port in node.ports if port != ERROR]
        _check_ignored(record, own, ports, ignored, problems)
        used = {edge.port for edge in edges if edge.source == name and edge.port != ERROR}
        is_open_end = len(ports) == 1 and not used
        # A misspelt port is reported elsewhere; the port that was meant need not be reported too.
        if node.role != "router" or is_open_end or not used <= {*ports}:
            continue
        for port in ports:
            if port not in used and port not in ignored:
                message = f"port `{port}` of router `{name}` has no edge"
                hint = f'connect `{name}:{port}`, or set `ignored_ports = ["{port}"]` on the node'
                problems.add("link.port-unconnected", message, record.location, hint)


def _check_ignored(
    record: NodeRecord, path: str, ports: Sequence[str], ignored: Sequence[str], problems: Problems
) -> None:
    for port in ignored:
        if port not in ports:
            message = f"`{record.name}` has no output port `{port}` to ignore"
            place = place_of(record, "ignored_ports", f"{path}.ignored_ports")
            listing = f"its ports are {quoted(ports)}" if ports else "it has no output ports"
            problems.add("link.port-unknown", message, place, near(port, ports, listing))
