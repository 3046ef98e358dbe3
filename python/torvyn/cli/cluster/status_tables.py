"""The tables of `torvyn cluster status`."""

from __future__ import annotations

from typing import Final

from torvyn.cli.artifacts.progress import size_text
from torvyn.cli.summary import age, count, table
from torvyn.cluster.local.broker_report import StreamReport
from torvyn.cluster.local.ray_report import NodeReport, RayReport, ResourceReport
from torvyn.cluster.local.status import ClusterStatus, PartStatus, waiting_messages

_PART_HEADS: Final = ("part", "state", "address", "process", "uptime", "memory", "version")
_STREAM_HEADS: Final = ("stream", "messages", "stored", "consumers")
_RESOURCE_HEADS: Final = ("resource", "free", "total")
_IN_BYTES: Final = ("memory", "object_store_memory")
"""Ray gives these resources in bytes."""


def render_status(status: ClusterStatus) -> str:
    blocks = [table(_PART_HEADS, [_part_row(part) for part in status.parts])]
    if status.streams is not None:
        blocks.append(_streams(status.streams))
    if status.ray is not None:
        blocks.append(_ray(status.ray))
    return "\n".join(blocks)


def problems(status: ClusterStatus) -> list[str]:
    """A line for each part that does not run, with what to do."""
    lines = []
    for part in status.parts:
        if part.state == "crashed":
            what = f"{part.name} has ended by itself; `torvyn cluster up` starts it again"
            lines.append(f"{what}. Its log is {part.log}")
        elif part.state == "silent":
            lines.append(f"{part.name} does not answer: {part.reason}. Its log is {part.log}")
    return lines


def _part_row(part: PartStatus) -> tuple[str, ...]:
    uptime = "-" if part.uptime_s is None else age(part.uptime_s)
    memory = "-" if part.memory_bytes is None else size_text(part.memory_bytes)
    return part.name, part.state, part.address, str(part.pid), uptime, memory, part.version


def _streams(streams: tuple[StreamReport, ...]) -> str:
    consumers = sum(stream.consumers for stream in streams)
    waiting = count(waiting_messages(streams), "message")
    head = f"{count(len(streams), 'stream')}, {count(consumers, 'consumer')}, {waiting} waiting\n"
    if not streams:
        return head
    rows = [
        (each.name, str(each.messages), size_text(each.stored_bytes), str(each.consumers))
        for each in streams
    ]
    return head + table(_STREAM_HEADS, rows)


def _ray(report: RayReport) -> str:
    nodes = ", ".join(map(_node_text, report.nodes))
    rows = [_resource_row(resource) for resource in report.resources]
    return f"{count(len(report.nodes), 'node')} of Ray: {nodes}\n" + table(_RESOURCE_HEADS, rows)


def _node_text(node: NodeReport) -> str:
    return f"{node.address} ({'alive' if node.is_alive else 'dead'})"


def _resource_row(resource: ResourceReport) -> tuple[str, ...]:
    amounts = (resource.free, resource.total)
    if resource.name in _IN_BYTES:
        return resource.name, *(size_text(int(amount)) for amount in amounts)
    return resource.name, *(f"{amount:g}" for amount in amounts)
