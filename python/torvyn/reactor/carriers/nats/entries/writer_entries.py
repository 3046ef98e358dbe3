"""What the writers of an edge have saved, as its reader looks at it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from torvyn.reactor.carriers.nats.entries.segment_entry import SegmentEntry
from torvyn.reactor.carriers.nats.input_edge import InputEdge
from torvyn.reactor.carriers.nats.refusals import run_unnamed
from torvyn.reactor.carriers.nats.run_ends import has_name

logger = logging.getLogger("torvyn.durable")

PATIENCE_S: Final = 10.0
"""How long a writer that has ended without a name may take to start in a run with one."""


class WriterEntries:
    """For the loop. `entries`: by input, those of its writers."""

    def __init__(
        self,
        inputs: Sequence[InputEdge],
        entries: Mapping[str, Sequence[SegmentEntry]],
        run: str,
    ) -> None:
        self._inputs, self._entries, self._run = inputs, entries, run
        self._unnamed_since_s: float | None = None
        self._ignored: set[tuple[str, str]] = set()
        """Writers, and runs of theirs whose ends do not matter."""
        self._received: dict[str, int] = {}
        """By input: how many elements had come when it was looked at last."""

    async def note_sent(self) -> None:
        """Tells the inputs what earlier starts of their writers have sent: if all of it has
        expired, nothing else does."""
        for edge in self._inputs:
            if edge.options.max_age_s is None:
                continue
            for writer, entry in enumerate(self._entries[edge.name]):
                edge.note_sent(writer, (await entry.saved_sent()).get(edge.name, {}))

    async def ignore_ends(self) -> None:
        """What has ended so far ended before this run, which begins anew."""
        for edge in self._inputs:
            for entry in self._entries[edge.name]:
                self._ignored.add((entry.key, await entry.saved_end()))

    async def note_lost_ends(self) -> None:
        """A writer that has ended says so once, and the broker may delete that: because it is older
        than `max_age`, or because somebody purges the stream. Its entry says it as well."""
        for edge in self._inputs:
            received, self._received[edge.name] = self._received.get(edge.name), edge.received
            if edge.received == received and edge.is_caught_up:
                for writer, entry in enumerate(self._entries[edge.name]):
                    await self._note_lost_end(edge, writer, entry)

    async def _note_lost_end(self, edge: InputEdge, writer: int, entry: SegmentEntry) -> None:
        saved = await entry.read()
        # What it owes the broker may have the end in it.
        if saved is None or not saved.ended or saved.outbox or saved.run != saved.ended:
            return
        if (entry.key, saved.ended) in self._ignored or not edge.missing_ends(writer, saved.ended):
            return
        stored = await edge.stored_ends(writer)
        # What has come meanwhile is not lost.
        lost = [part for part in edge.missing_ends(writer, saved.ended) if part not in stored]
        if lost and edge.is_caught_up:
            text = (
                "`%s`: the message that says that `%s` has ended is gone; the run ends without it"
            )
            logger.warning(text, edge.name, entry.key, extra={"event": "edge.end-lost"})
            for partition in lost:
                series, sent = saved.sent_to(edge.name, partition)
                edge.note_lost_end(writer, series, saved.ended, partition, sent)

    async def check_runs(self) -> None:
        """Raises if a writer has ended without a name and was not started with one: its end in
        this run would never come."""
        found = [(edge, writer) for edge in self._inputs for writer in edge.unnamed_writers]
        for edge, writer in found:
            entry = self._entries[edge.name][writer]
            if has_name(await entry.saved_run()):
                continue
            if self._unnamed_since_s is None:
                self._unnamed_since_s = time.monotonic()
            if time.monotonic() - self._unnamed_since_s >= PATIENCE_S:
                raise run_unnamed(edge.name, entry.key, self._run)
            return
        self._unnamed_since_s = None
