"""The summary of a flow that has ended, as one line or as tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torvyn._flow.statistics import EdgeStatistics, NodeStatistics, Statistics
    from torvyn._link.plan import Plan

_COUNTS = (
    "received", "passed", "filtered", "failed", "dead_lettered", "set_aside", "absorbed",
    "unread", "emitted", "ignored", "errors", "retried",
)  # fmt: skip
_ALWAYS = ("received", "passed", "filtered", "emitted", "errors")
"""The other columns are shown if a node has a value other than 0."""
_EDGE_HEADS = (
    "edge", "entered", "taken", "dropped", "unread", "peak", "peak bytes", "pressured"
)  # fmt: skip
COUNT_HEADS = ("counted by", "what", "count")
CONNECTION_HEADS = ("connection", "address", "state", "connects", "failures", "away", "reason")
_GUEST_HEADS = ("guest", "traps", "state lost", "replaced", "refused", "replacement", "memory")
_BUDGET_HEADS = ("budget", "CPU time", "CPU share", "peak bytes", "max memory", "used")
_LEDGER_HEADS = (
    "ledger", "allocated", "released", "live", "peak bytes", "copies", "copied bytes", "why"
)  # fmt: skip


def summary_line(statistics: Statistics) -> str:
    """`20 tokens produced | 1 filtered | 3 sentences emitted`; counts of 0 are left out. What
    guards removed from the text counts as filtered."""
    nodes = statistics.nodes.values()
    produced = _by_unit((node.unit, node.emitted) for node in nodes if node.role == "source")
    sinks = (node for node in nodes if node.role == "sink")
    emitted = _by_unit((_unit_of(node, statistics), node.passed) for node in sinks)
    parts = [f"{produced} produced"]
    if filtered := statistics.filtered + statistics.removed:
        parts.append(f"{filtered} filtered")
    parts.append(f"{emitted} emitted")
    if statistics.set_aside:
        parts.append(f"{statistics.set_aside} set aside")
    if statistics.dropped:
        parts.append(f"{statistics.dropped} dropped")
    if statistics.unread:
        parts.append(f"{statistics.unread} unread")
    if statistics.errors:
        parts.append(count(statistics.errors, "error"))
    return " | ".join(parts)


def _unit_of(node: NodeStatistics, statistics: Statistics) -> str | None:
    """A sink's own unit, or that of the aggregator before it, of which filters pass elements on."""
    if node.role == "aggregator" or (node.role == "sink" and node.unit is not None):
        return node.unit
    if node.role not in ("sink", "filter", "router"):
        return None
    before = [statistics.nodes.get(e.source) for e in statistics.edges if e.target == node.name]
    units = {_unit_of(source, statistics) for source in before if source is not None}
    return units.pop() if len(units) == 1 else None


def hidden_output(plan: Plan, statistics: Statistics) -> list[str]:
    """Which components printed lines that are not shown, and the grants that show them."""
    lines: dict[str, int] = {}
    grants: dict[str, tuple[str, ...]] = {}
    for node in plan.nodes:
        ended = statistics.nodes.get(node.name)
        if ended is not None and ended.guest is not None and ended.guest.hidden_lines:
            name = node.component.name
            lines[name] = lines.get(name, 0) + ended.guest.hidden_lines
            grants[name] = node.grants
    if not lines:
        return []
    from torvyn._manifest.render import bare_or_quoted, plain

    counts = [f"`{name}` printed {count(number, 'line')}" for name, number in lines.items()]
    shown = "To show what they print, add to Torvyn.toml:"
    text = [f"[torvyn] Not shown: {', '.join(counts)}. {shown}"]
    for name, granted in grants.items():
        text += ["", f"[security.grants.{bare_or_quoted(name)}]"]
        text += [f"capabilities = {plain((*granted, 'stdio:stdout'))}"]
    return text


def _by_unit(counts: Iterable[tuple[str | None, int]]) -> str:
    sums: dict[str, int] = {}
    for unit, count in counts:
        name = unit or "elements"
        sums[name] = sums.get(name, 0) + count
    return ", ".join(f"{n} {singular(unit) if n == 1 else unit}" for unit, n in sums.items())


_IRREGULAR = {"people": "person", "children": "child", "series": "series", "species": "species"}
_SIBILANTS = ("batches", "matches", "searches", "branches", "patches", "indexes", "statuses")


def singular(unit: str) -> str:
    """The singular of an English plural noun, of which the last word counts; `1 entry`."""
    head, space, noun = unit.rpartition(" ")
    if noun in _IRREGULAR:
        one = _IRREGULAR[noun]
    elif noun.endswith("ies") and len(noun) > 4:
        one = f"{noun[:-3]}y"
    elif noun.endswith(("sses", "shes", "xes", *_SIBILANTS)):
        one = noun[:-2]
    elif noun.endswith("s") and not noun.endswith("ss"):
        one = noun[:-1]
    else:
        one = noun
    return f"{head}{space}{one}"


def statistics_tables(statistics: Statistics) -> str:
    """All statistics: nodes, guests, connections, edges, budgets and the ledger."""
    nodes = statistics.nodes.values()
    ledger = [*map(_ledger_row, nodes), _ledger_total(statistics)]
    guests = [row for node in nodes for row in _guest_rows(node)]
    connections = [row for node in nodes for row in _connection_rows(node)]
    blocks = (
        _node_table(nodes),
        *([table(_GUEST_HEADS, guests)] if guests else []),
        *([table(CONNECTION_HEADS, connections)] if connections else []),
        table(_BUDGET_HEADS, [_budget_row(node, statistics.elapsed_s) for node in nodes]),
        table(_EDGE_HEADS, [*map(_edge_row, statistics.edges)]),
        table(_LEDGER_HEADS, ledger),
        *_denial_table(nodes),
        *_count_table(nodes),
        f"{statistics.turns} turns in {duration(statistics.elapsed_s)}\n",
    )
    return "\n".join(blocks)


def _denial_table(nodes: Iterable[NodeStatistics]) -> Iterator[str]:
    """The table of denied capabilities, if there are any."""
    rows = [(node.name, kind, str(count)) for node in nodes for kind, count in node.denied.items()]
    if rows:
        yield table(("denied", "capability", "times"), rows)


def _count_table(nodes: Iterable[NodeStatistics]) -> Iterator[str]:
    """The table of what components count themselves, if there is anything."""
    rows = [(node.name, name, str(n)) for node in nodes for name, n in node.counts.items() if n]
    if rows:
        yield table(COUNT_HEADS, rows)


def _node_table(nodes: Collection[NodeStatistics]) -> str:
    columns = [
        name for name in _COUNTS if name in _ALWAYS or any(getattr(node, name) for node in nodes)
    ]
    heads = ("node", "role", *(name.replace("_", "-") for name in columns), "call")
    return table(heads, [_node_row(node, columns) for node in nodes])


def _node_row(node: NodeStatistics, counts: Sequence[str]) -> tuple[str, ...]:
    call = "-" if node.mean_call_ns is None else duration(node.mean_call_ns / 1e9)
    return (node.name, node.role, *(str(getattr(node, name)) for name in counts), call)


def _guest_rows(node: NodeStatistics) -> Iterable[tuple[str, ...]]:
    guest = node.guest
    if guest is not None:
        mean_ns = guest.mean_replace_ns
        took = "-" if mean_ns is None else duration(mean_ns / 1e9)
        counts = (guest.traps, guest.state_lost, guest.replaced, guest.refused)
        yield (node.name, *map(str, counts), took, size(guest.memory_bytes))


def _connection_rows(node: NodeStatistics) -> Iterable[tuple[str, ...]]:
    if node.connection is not None:
        yield connection_row(node.name, asdict(node.connection))


def connection_row(node: str, connection: Mapping[str, Any]) -> tuple[str, ...]:
    """The row of a `ConnectionStatus`, as a dict, below `CONNECTION_HEADS`."""
    counts = (str(connection["connects"]), str(connection["failures"]))
    away, reason = duration(connection["away_s"]), connection["reason"] or "-"
    return (node, connection["address"], connection["state"], *counts, away, reason)


def _edge_row(edge: EdgeStatistics) -> tuple[str, ...]:
    name = f"{edge.source}:{edge.port} -> {edge.target}"
    counts = (edge.entered, edge.taken, edge.dropped, edge.unread, edge.peak, edge.peak_bytes)
    return (name, *map(str, counts), str(edge.pressured))


def _budget_row(node: NodeStatistics, elapsed_s: float) -> tuple[str, ...]:
    cpu = "-" if node.cpu_ns is None else duration(node.cpu_ns / 1e9)
    peak_bytes = node.peak_bytes + (node.guest_memory_bytes or 0)
    used = f"{peak_bytes / node.max_memory_bytes:.1%}" if node.max_memory_bytes else "-"
    share = percentage(node.cpu_ns, elapsed_s)
    return (node.name, cpu, share, str(peak_bytes), size(node.max_memory_bytes), used)


def percentage(cpu_ns: float | None, elapsed_s: float) -> str:
    """The share of one CPU that so much CPU time was."""
    return "-" if cpu_ns is None or elapsed_s <= 0 else f"{cpu_ns / elapsed_s / 1e9:.1%}"


def size(size_bytes: float) -> str:
    """A number of bytes in a suitable unit: `850 B`, `12.3 KiB`, `64 MiB`."""
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def _ledger_row(node: NodeStatistics) -> tuple[str, ...]:
    copies = {why: count for why, count in node.copies.items() if count}
    why = ", ".join(f"{count} {reason}" for reason, count in copies.items())
    live = node.allocations - node.releases
    counts = (node.allocations, node.releases, live, node.peak_bytes, sum(copies.values()))
    return (node.name, *map(str, counts), str(node.copied_bytes), why or "-")


def _ledger_total(statistics: Statistics) -> tuple[str, ...]:
    copied = sum(node.copied_bytes for node in statistics.nodes.values())
    counts = (statistics.allocations, statistics.releases, statistics.live)
    return ("all", *map(str, counts), "-", str(statistics.copies), str(copied), "-")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: numbers to the right, words to the left."""
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    numeric = [all(_is_figure(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in (heads, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _is_figure(cell: str) -> bool:
    return cell == "-" or cell[:1].isdigit() or cell[:1] in "+-"


def count(number: int, word: str) -> str:
    """`1 stream`, `2 streams`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def age(seconds: float) -> str:
    """How long ago something was, in whole units: `3 d`, `5 min`, `40 s`."""
    for scale, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * scale:
            return f"{seconds // scale:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def duration(seconds: float) -> str:
    """A time in a suitable unit: `850 ns`, `12.3 us`, `4.20 ms`, `1.50 s`."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 * scale else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.0f} ns"
