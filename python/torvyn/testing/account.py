"""The account of a flow: every element is somewhere, and is counted there once.

The laws hold in every snapshot of a flow's statistics and for every ending. A test that ends a flow
in an unusual way checks them with one call.
"""

from __future__ import annotations

from collections.abc import Iterator

from torvyn.reactor.statistics import EdgeStatistics, NodeStatistics, Statistics

_CONCLUDED = ("passed", "filtered", "failed", "dead_lettered", "absorbed", "unread")


def check_account(statistics: Statistics) -> None:
    """Raises `AssertionError` with every figure that does not add up.

    node: received = passed + filtered + failed + dead_lettered + absorbed + unread, and what it
    received is what was taken from its edges, what it emitted is what entered them.
    edge: entered = taken + dropped + unread.
    Of a flow that is over and has been read, every buffer was released.
    """
    wrong = [*_nodes(statistics), *_edges(statistics), *_ledger(statistics)]
    assert not wrong, f"flow `{statistics.flow}` ({statistics.state}): " + "; ".join(wrong)


def _nodes(statistics: Statistics) -> Iterator[str]:
    for node in statistics.nodes.values():
        concluded = sum(getattr(node, name) for name in _CONCLUDED)
        if node.received != concluded:
            parts = " + ".join(f"{getattr(node, name)} {name}" for name in _CONCLUDED)
            yield f"node `{node.name}` received {node.received}, not {parts}"
        if statistics.edges:
            yield from _ends(node, statistics.edges)


def _ends(node: NodeStatistics, edges: tuple[EdgeStatistics, ...]) -> Iterator[str]:
    taken = sum(edge.taken for edge in edges if edge.target == node.name)
    if taken != node.received:
        yield f"node `{node.name}` received {node.received} of {taken} taken from its edges"
    entered: dict[str, set[int]] = {}
    for edge in edges:
        if edge.source == node.name:
            entered.setdefault(edge.port, set()).add(edge.entered)
    for port, counts in entered.items():
        if len(counts) > 1:
            yield f"the edges of `{node.name}:{port}` got different counts: {sorted(counts)}"
    letters = sum(entered.pop("error", {0}))
    if letters != node.dead_lettered:
        yield f"node `{node.name}` sent {letters} of {node.dead_lettered} dead letters"
    sent = sum(max(counts) for counts in entered.values())
    if sent != node.emitted:
        yield f"node `{node.name}` emitted {node.emitted}, its edges got {sent}"


def _edges(statistics: Statistics) -> Iterator[str]:
    for edge in statistics.edges:
        if edge.entered != edge.taken + edge.dropped + edge.unread:
            yield (
                f"edge `{edge.source}:{edge.port} -> {edge.target}` got {edge.entered}, not"
                f" {edge.taken} taken + {edge.dropped} dropped + {edge.unread} unread"
            )


def _ledger(statistics: Statistics) -> Iterator[str]:
    is_over = statistics.state in ("completed", "cancelled", "failed")
    if is_over and not any(edge.depth for edge in statistics.edges):
        for node in statistics.nodes.values():
            live = node.allocations - node.releases
            if live or node.live_bytes or node.held_bytes:
                yield (
                    f"node `{node.name}` keeps {live} buffers, {node.live_bytes} bytes in them"
                    f" and {node.held_bytes} held"
                )
