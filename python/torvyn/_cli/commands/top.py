"""`torvyn top`: shows the flows that run on this machine, and what their nodes do and use."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.statistics import (
    CONNECTION_HEADS,
    COUNT_HEADS,
    connection_row,
    duration,
    percentage,
    size,
    table,
)
from torvyn._cli.target import duration_s

_CLEAR: Final = "\x1b[H\x1b[2J"

Before = dict[tuple[int, str], dict[str, Any]]
"""The documents of the flows as they were last shown."""

EXAMPLE = """\
torvyn top
torvyn top --once --format json"""


@make_command("top", example=EXAMPLE)
@click.option(
    "--interval",
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="How often to refresh the tables.",
)
@click.option("--once", is_flag=True, help="Print the tables once; rates are since the start.")
@click.option(
    "--check",
    "is_check",
    is_flag=True,
    help="Print only the flows that stand still. The exit code is 1 if there is one, or no flow.",
)
@click.option("--pid", type=int, metavar="N", help="Show only the flows of this process.")
def command(screen: Screen, interval: str, once: bool, is_check: bool, pid: int | None) -> int:
    """Show the running flows, and what each node uses.

    Lists the flows of `torvyn run` that you may see, with the elements per second of each node, the
    bytes that wait in its queues, the memory and the CPU time that it uses. Ctrl-C ends it. Where
    standard output is not a terminal, the tables are printed once.
    """
    interval_s = duration_s("--interval", interval)
    if is_check:
        return _check(screen, _flows(pid))
    if screen.is_json or once or not sys.stdout.isatty():
        return _show_once(screen, pid)
    before: Before = {}
    try:
        while True:
            found = _flows(pid)
            sys.stdout.write(_CLEAR)
            screen.data(_render(found, before))
            before = {_key(document): document for document in found}
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return 0


def _show_once(screen: Screen, pid: int | None) -> int:
    found = _flows(pid)
    if screen.is_json:
        screen.document({"flows": found})
    else:
        screen.data(_render(found, {}))
    return 0


def _check(screen: Screen, found: list[dict[str, Any]]) -> int:
    """For the probe of a container."""
    from torvyn._flow.health import FAILED

    failed = [each for each in found if each["health"]["state"] in FAILED]
    if screen.is_json:
        screen.document({"flows": failed})
    elif failed or not found:
        screen.data(_render(failed, {}))
    return 1 if failed or not found else 0


def _flows(pid: int | None) -> list[dict[str, Any]]:
    from torvyn._cli.flow_socket import running_flows

    return [document for document in running_flows() if pid in (None, document["pid"])]


def _key(document: dict[str, Any]) -> tuple[int, str]:
    return document["pid"], document["flow"]


def _render(found: list[dict[str, Any]], before: Before) -> str:
    pass

    if not found:
        return "No flow is running.\n"
    return "\n".join(render_flow(document, before.get(_key(document))) for document in found)


_HEADS: Final = (
    "node", "role", "in/s", "out/s", "errors", "waiting", "queued", "held", "memory", "CPU"
)  # fmt: skip

_BROKER_HEADS: Final = ("edge", "messages", "stored", "limit", "expired", "refused")
_DISK_HEADS: Final = ("edge", "elements", "stored", "limit", "dropped")

Document = Mapping[str, Any]


def render_flow(now: Document, before: Document | None) -> str:
    """One flow. Rates are those since `before`, or since the start."""
    statistics = now["statistics"]
    past = before["statistics"] if before is not None else None
    elapsed_s = statistics["elapsed_s"] - (past["elapsed_s"] if past else 0.0)
    rows = [
        _row(node, past["nodes"].get(name) if past else None, statistics["edges"], elapsed_s)
        for name, node in statistics["nodes"].items()
    ]
    connections = [
        connection_row(name, node["connection"])
        for name, node in statistics["nodes"].items()
        if node["connection"] is not None
    ]
    heads: tuple[str, ...] = _HEADS
    set_aside = [node.get("set_aside", 0) for node in statistics["nodes"].values()]
    if any(set_aside):
        heads = (*_HEADS, "set aside")
        rows = [(*row, str(count)) for row, count in zip(rows, set_aside, strict=True)]
    tables = [table(heads, rows)]
    if connections:
        tables.append(table(CONNECTION_HEADS, connections))
    if counts := [
        (name, what, str(number))
        for name, node in statistics["nodes"].items()
        for what, number in node.get("counts", {}).items()
        if number
    ]:
        tables.append(table(COUNT_HEADS, counts))
    edges = [edge for edge in statistics["edges"] if edge["stored"]]
    if on_disk := [_disk_row(edge) for edge in edges if edge["carrier"] == "disk"]:
        tables.append(table(_DISK_HEADS, on_disk))
    if on_broker := [_broker_row(edge) for edge in edges if edge["carrier"] == "nats"]:
        tables.append(table(_BROKER_HEADS, on_broker))
    return "\n".join((_head(now, before, elapsed_s) + "\n", *tables))


def _head(now: Document, before: Document | None, elapsed_s: float) -> str:
    statistics, health = now["statistics"], now["health"]
    limit = now["memory_limit_bytes"]
    memory = size(now["resident_bytes"] or 0) + (f" of {size(limit)}" if limit else "")
    cpu_s = now["cpu_s"] - (before["cpu_s"] if before is not None else 0.0)
    facts = (
        f"flow {now['flow']}",
        f"process {now['pid']}",
        f"up {duration(statistics['elapsed_s'])}",
        f"memory {memory}",
        f"CPU {percentage(cpu_s * 1e9, elapsed_s)}",
        f"{size(statistics['bytes'])} in the flow",
    )
    reason = f": {health['reason']}" if health["reason"] else ""
    return "   ".join(facts) + f"\n{health['state']}{reason}"


def _row(
    node: Document, past: Document | None, edges: list[Document], elapsed_s: float
) -> tuple[str, ...]:
    def rate(name: str) -> str:
        count = node[name] - (past[name] if past else 0)
        return f"{count / elapsed_s:.0f}" if elapsed_s > 0 else "-"

    into = [edge for edge in edges if edge["target"] == node["name"]]
    guest = node["guest"] or {}
    # A flow of an older release does not report the memory of its guests.
    used = node["live_bytes"] + node["held_bytes"] + guest.get("memory_bytes", 0)
    cpu_ns = node["cpu_ns"]
    spent_ns = None if cpu_ns is None else cpu_ns - ((past["cpu_ns"] or 0) if past else 0)
    if spent_ns is not None:
        # An estimate; a node makes one call at a time.
        spent_ns = min(spent_ns, round(elapsed_s * 1e9))
    return (
        node["name"],
        node["role"],
        rate("received"),
        rate("emitted"),
        str(node["errors"]),
        str(sum(edge["unread"] for edge in into) + node["unread"]),
        size(sum(edge["bytes"] for edge in into)),
        size(node["held_bytes"]),
        f"{size(used)} of {size(node['max_memory_bytes'])}",
        percentage(spent_ns, elapsed_s),
    )


def _name(edge: Document) -> str:
    return f"{edge['source']}:{edge['port']} -> {edge['target']}"


def _disk_row(edge: Document) -> tuple[str, ...]:
    stored = edge["stored"]
    return (
        _name(edge),
        str(stored["elements"]),
        size(stored["disk_bytes"]),
        size(stored["limit_bytes"]),
        str(edge["dropped"]),
    )


def _broker_row(edge: Document) -> tuple[str, ...]:
    stored = edge["stored"]
    is_known = stored["messages"] is not None
    return (
        _name(edge),
        str(stored["messages"]) if is_known else "-",
        size(stored["bytes"]) if is_known else "-",
        size(stored["limit_bytes"]),
        str(stored["expired"]),
        str(stored["refusals"]),
    )
