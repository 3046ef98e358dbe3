"""Checks the account of a flow: every element is counted exactly once.

The laws hold in every snapshot of the statistics and for every ending.
"""

from __future__ import annotations

from collections.abc import Iterator

from torvyn.reactor.statistics import EdgeStatistics, NodeStatistics, Statistics

_OUTCOMES = ("passed", "filtered", "failed", "dead_lettered", "absorbed", "unread")


def check_account(statistics: Statistics) -> None:
    """Raises `AssertionError` with every count that does not add up.

    Node: received = passed + filtered + failed + dead_lettered + absorbed + unread. A node receives
    what is taken from its input edges, and emits what enters its output edges.
    Edge: entered = taken + dropped + unread.
    After the flow has ended and its output was read, every buffer is released.
    """
    errors = [*_nodes(statistics), *_edges(statistics), *_ledger(statistics)]
    assert not errors, f"flow `{statistics.flow}` ({statistics.state}): " + "; ".join(errors)


def _nodes(statistics: Statistics) -> Iterator[str]:
    for node in statistics.nodes.values():
        total = sum(getattr(node, name) for name in _OUTCOMES)
        if node.received != total:
            counts = " + ".join(f"{getattr(node, name)} {name}" for name in _OUTCOMES)
            yield f"node `{node.name}` received {node.received}, not {counts}"
        if statistics.edges:
            yield from _ends(node, statistics.edges)


def _ends(node: NodeStatistics, edges: tuple[EdgeStatistics, ...]) -> Iterator[str]:
    taken = sum(edge.taken for edge in edges if edge.target == node.name)
    if taken != node.received:
        yield f"node `{node.name}` received {node.received}, but {taken} were taken from its edges"
    entered: dict[str, set[int]] = {}
    for edge in edges:
        if edge.source == node.name:
            entered.setdefault(edge.port, set()).add(edge.entered - edge.restored)
    for port, counts in entered.items():
        if len(counts) > 1:
            yield f"the edges of `{node.name}:{port}` received different counts: {sorted(counts)}"
    letters = entered.pop("error", None)
    # Without such an edge, dead letters are stored.
    if letters is not None and sum(letters) != node.dead_lettered:
        sent = sum(letters)
        yield f"node `{node.name}` sent {sent} dead letters, but counted {node.dead_lettered}"
    sent = sum(max(counts) for counts in entered.values())
    if sent != node.emitted:
        yield f"node `{node.name}` emitted {node.emitted}, but its edges received {sent}"


def _edges(statistics: Statistics) -> Iterator[str]:
    for edge in statistics.edges:
        if edge.entered != edge.taken + edge.dropped + edge.unread:
            yield (
                f"edge `{edge.source}:{edge.port} -> {edge.target}` received {edge.entered}, not"
                f" {edge.taken} taken + {edge.dropped} dropped + {edge.unread} unread"
            )


def _ledger(statistics: Statistics) -> Iterator[str]:
    has_ended = statistics.state in ("completed", "cancelled", "failed")
    if has_ended and not any(edge.depth for edge in statistics.edges):
        for node in statistics.nodes.values():
            live = node.allocations - node.releases
            if live or node.live_bytes or node.held_bytes:
                yield (
                    f"node `{node.name}` still has {live} buffers with {node.live_bytes} bytes,"
                    f" and holds {node.held_bytes} bytes"
                )
