"""What the writers of an edge have saved, as its reader looks at it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from torvyn.reactor.carriers.nats.entries.segment_entry import SegmentEntry
from torvyn.reactor.carriers.nats.input_edge import InputEdge
from torvyn.reactor.carriers.nats.refusals import run_unnamed
from torvyn.reactor.carriers.nats.run_ends import has_name

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

    async def note_sent(self) -> None:
        """Tells the inputs what earlier starts of their writers have sent: if all of it has
        expired, nothing else does."""
        for edge in self._inputs:
            if edge.options.max_age_s is None:
                continue
            for writer, entry in enumerate(self._entries[edge.name]):
                edge.note_sent(writer, (await entry.saved_sent()).get(edge.name, {}))

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
