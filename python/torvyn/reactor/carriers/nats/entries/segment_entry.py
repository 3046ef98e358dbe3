"""The entry of one replica of a segment on the broker, and which process owns it.

A value that exceeds the broker's `max_payload` is split: the parts are written first, each time
under new keys, and the entry that names them last. So the last entry stays whole until the next
one is; then the parts before it are deleted.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from torvyn.durable import Checkpoint, LogStatistics
from torvyn.jetstream import BrokerUnavailable, Conflict, Entries, Entry, Refused
from torvyn.reactor.carriers.nats.entries.saved_segment import VERSION, Saved
from torvyn.reactor.carriers.nats.refusals import entry_damaged, entry_gone, taken_over
from torvyn.reactor.carriers.nats.run_ends import new_run

HEAD_BYTES: Final = 1024
"""What the broker needs of a message besides its value."""


class SegmentEntry:
    """For the loop. `segment`: its name in the wired plan."""

    def __init__(
        self, entries: Entries, segment: str, key: str, max_payload: int, replicas: int = 1
    ) -> None:
        self._entries, self.segment, self.key = entries, segment, key
        self._most_bytes = max_payload - HEAD_BYTES
        self._replicas = replicas
        self._revision = 0
        self._has_parts = True
        """Whether there may be parts of earlier entries."""
        self.saved = Saved.new()

    async def read(self) -> Saved | None:
        """What is saved; None if there is nothing."""
        revision = -1
        while True:
            entry = await self._entries.get(self.key)
            self._revision = 0 if entry is None else entry.revision
            if entry is None:
                return None
            if (value := await self._join(entry)) is not None:
                return Saved.decode(value)
            if entry.revision == revision:
                raise entry_damaged(self.key)
            # Its owner has written the next one, and deleted the parts of this one.
            revision = entry.revision

    async def saved_replicas(self) -> int | None:
        """The number of replicas that it was saved with; None if there is nothing."""
        entry = await self._entries.get(self.key)
        return None if entry is None else _head(entry).get("replicas", 0)

    async def saved_run(self) -> str:
        """The run that it was saved in; empty if there is nothing."""
        entry = await self._entries.get(self.key)
        return "" if entry is None else str(_head(entry).get("run", ""))

    async def saved_end(self) -> str:
        """The last run that has ended; empty if there is none."""
        saved = await self.read()
        return "" if saved is None else saved.ended

    async def saved_sent(self) -> dict[str, Any]:
        """What its owners have sent, as `Saved.sent` has it."""
        entry = await self._entries.get(self.key)
        return {} if entry is None else _head(entry).get("sent", {})

    async def delete(self) -> None:
        await self._entries.delete(self.key)
        await self._entries.delete(f"{self.key}.part.>")

    async def take_over(self, run: str = "", *, is_fresh: bool = False) -> Saved:
        """Makes this process the owner; one that runs the segment elsewhere fails with its next
        commit. Returns what was saved before."""
        while True:
            kept = await self._discard() if is_fresh else (await self.read() or Saved.new())
            begun = kept.run if kept.run != kept.ended else new_run()
            taken = replace(
                kept,
                owner=secrets.token_hex(8),
                generation=kept.generation + 1,
                replicas=self._replicas,
                run=run or begun,
            )
            try:
                await self._write(taken)
                return kept
            except Conflict:
                continue

    async def _discard(self) -> Saved:
        """A new content in the place of the one that is there, even if that cannot be read."""
        entry = await self._entries.get(self.key)
        self._revision = 0 if entry is None else entry.revision
        generation = 0 if entry is None else _head(entry).get("generation", 0)
        return replace(Saved.new(), generation=generation)

    async def save(self, saved: Saved) -> None:
        """Writes the next state; raises `broker.taken-over` if another process owns it now."""
        while True:
            try:
                await self._write(saved)
                return
            except Conflict:
                # An earlier attempt, whose confirmation was lost, was stored; its content may be
                # another one. Or another process was started.
                self._revision = (await self._own_entry()).revision

    async def check(self) -> None:
        """Raises `broker.taken-over` if another process owns the segment now."""
        await self._own_entry()

    async def _own_entry(self) -> Entry:
        entry = await self._entries.get(self.key)
        if entry is None:
            raise entry_gone(self.key)
        if _head(entry)["owner"] != self.saved.owner:
            raise taken_over(self.key)
        return entry

    async def _write(self, saved: Saved) -> None:
        value, first = saved.encode(), 0
        if len(value) > self._most_bytes:
            value, first = await self._write_parts(value, saved)
            self._has_parts = True
        self._revision = await self._entries.put(self.key, value, self._revision)
        self.saved = saved
        if self._has_parts:
            await self._delete_parts(first)

    async def _write_parts(self, value: bytes, saved: Saved) -> tuple[bytes, int]:
        """Returns the entry that names them, and the revision of the first part."""
        prefix = f"{self.key}.part.{secrets.token_hex(8)}"
        size = self._most_bytes
        parts = [value[at : at + size] for at in range(0, len(value), size)]
        revisions = [
            await self._entries.put(f"{prefix}.{number}", part) for number, part in enumerate(parts)
        ]
        named = {
            "v": VERSION,
            "owner": saved.owner,
            "generation": saved.generation,
            "replicas": saved.replicas,
            "run": saved.run,
            "sent": saved.sent,
            "parts": len(parts),
            "at": prefix,
            "crc": zlib.crc32(value),
        }
        return json.dumps(named).encode(), revisions[0]

    async def _delete_parts(self, first: int) -> None:
        """Deletes the parts that no entry names: whoever may still write the next entry has read
        this one first, so that its parts are newer."""
        with contextlib.suppress(BrokerUnavailable, Refused):
            await self._entries.delete_before(f"{self.key}.part.>", first or self._revision)
            self._has_parts = bool(first)

    async def _join(self, entry: Entry) -> bytes | None:
        """The value of an entry; None if parts of it are missing."""
        head = _head(entry)
        if "parts" not in head:
            return entry.value
        parts = [await self._entries.get(f"{head['at']}.{at}") for at in range(head["parts"])]
        value = b"".join(part.value for part in parts if part is not None)
        return value if zlib.crc32(value) == head["crc"] else None


def _head(entry: Entry) -> dict[str, Any]:
    """The first line of a value."""
    head: dict[str, Any] = json.loads(entry.value.partition(b"\n")[0])
    return head


class SavedSegments:
    """What the segments have saved, by their names in the wired plan, as the checkpoints read
    it."""

    def __init__(self, saved: Mapping[str, Saved]) -> None:
        self._saved = saved

    def checkpoint(self, segment: str) -> Checkpoint | None:
        saved = self._saved[segment]
        return Checkpoint(segment, saved.shape, saved.states) if saved.states else None

    def segments(self) -> list[str]:
        return list(self._saved)

    def logs(self) -> dict[str, LogStatistics]:
        return {}
