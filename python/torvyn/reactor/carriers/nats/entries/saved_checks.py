"""Whether what is saved on the broker fits the flow as it is now.

The replicas of a segment share the partitions of its inputs: with another number of replicas, a
partition belongs to another replica, which has neither its position nor the states of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torvyn._link.plan import Segment
from torvyn.jetstream import Entries, Streams
from torvyn.reactor.carriers.nats.entries.saved_segment import Saved
from torvyn.reactor.carriers.nats.entries.segment_entry import SegmentEntry
from torvyn.reactor.carriers.nats.names import FlowNames, token
from torvyn.reactor.carriers.nats.output_edge import OutputEdge
from torvyn.reactor.carriers.nats.refusals import partitions_changed, replicas_changed


class SavedChecks:
    """All methods are for the loop."""

    def __init__(
        self, entries: Entries, streams: Streams, names: FlowNames, max_payload: int
    ) -> None:
        self._entries, self._streams, self._names = entries, streams, names
        self._max_payload = max_payload

    async def outdated(
        self, segment: Segment, replicas: int, *, is_fresh: bool
    ) -> list[SegmentEntry]:
        """The entries of a segment that had another number of replicas. Raises if they hold what
        another replica would need."""
        found = []
        for key in await self._entries.keys(f"{token(segment.name)}.*"):
            entry = SegmentEntry(self._entries, segment.name, key, self._max_payload, replicas)
            if await entry.saved_replicas() in (None, replicas):
                continue
            saved = None if is_fresh else await entry.read()
            if saved is not None and saved.replicas != replicas:
                reasons = [*_unfinished(saved, entry), *await self._waiting(segment)]
                if reasons:
                    raise replicas_changed(segment.name, saved.replicas, replicas, reasons)
            found.append(entry)
        return found

    async def _waiting(self, segment: Segment) -> list[str]:
        found = []
        for edge in segment.inputs:
            state = await self._streams.state(self._names.edge(edge, 1).stream)
            if state is not None and state.messages:
                name = f"{edge.source}:{edge.port}->{edge.target}"
                found.append(f"{state.messages} batches wait on the edge `{name}`")
        return found

    async def gone(self, segments: Iterable[str], *, is_fresh: bool) -> list[str]:
        """What is saved for segments that the flow no longer has; if it is not wanted, it is
        deleted."""
        known = {token(name) for name in segments}
        found = []
        for key in await self._entries.keys("*.*"):
            name = key.rpartition(".")[0]
            if name in known:
                continue
            entry = SegmentEntry(self._entries, name, key, self._max_payload)
            if is_fresh:
                await entry.delete()
            elif (saved := await entry.read()) is not None:
                reasons = _unfinished(saved, entry)
                found += [f"segment `{name}` is gone, and there are {each}" for each in reasons]
        return found


def _unfinished(saved: Saved, entry: SegmentEntry) -> list[str]:
    found = []
    if nodes := entry.state.nodes if entry.state is not None else []:
        found.append(f"saved states of {', '.join(f'`{node}`' for node in nodes)}")
    if saved.outbox:
        found.append(f"{len(saved.outbox)} batches that may not be on the broker")
    if any(has_ends(saved, edge) for edge in saved.inputs):
        found.append("inputs that have ended in part")
    return found


def has_ends(saved: Saved, edge: str) -> bool:
    """Whether some writers of an edge have ended in the run that goes on, or for the next one."""
    ends = saved.inputs[edge]["ends"]
    is_open = saved.run != saved.ended and any(saved.run in each for each in ends["runs"].values())
    return bool(ends["early"]) or is_open


def check_outbox(saved: Saved, outputs: Sequence[OutputEdge]) -> list[str]:
    """Which batches were to be published on an edge that is gone. Raises if the edge has other
    partitions now."""
    gone = 0
    counts: dict[str, int] = {}
    for message in saved.outbox:
        edge = next((each for each in outputs if each.names.is_of_edge(message.subject)), None)
        if edge is None:
            gone += 1
        elif not edge.names.is_current(message.subject):
            counts[edge.name] = counts.get(edge.name, 0) + 1
    for name, count in counts.items():
        raise partitions_changed(name, count)
    return [f"{gone} batches were to be published on an edge that is gone"] if gone else []
