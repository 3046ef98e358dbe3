"""The entry of one replica of a segment on the broker, and which process owns it.

The changes of its states move out of it when they are enough for a piece; pieces that no entry
needs any more are deleted. A value that exceeds the broker's `max_payload` is split: the parts are
written first, each time under new keys, and the entry that names them last. So the last entry stays
whole until the next one is; then the parts before it are deleted.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from torvyn.durable import Checkpoint, LogStatistics, SavedState
from torvyn.durable.state_log import replay
from torvyn.jetstream import BrokerUnavailable, Conflict, Entries, Entry, Refused
from torvyn.reactor.carriers.nats.entries.saved_segment import VERSION, Piece, Saved
from torvyn.reactor.carriers.nats.entries.state_pieces import StatePieces
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
        self._pieces = StatePieces(entries, key, self._most_bytes)
        self.saved = Saved.new()
        self.state: SavedState | None = None
        """The states that were read, until somebody has taken them."""

    async def read(self) -> Saved | None:
        """What is saved; None if there is nothing."""
        revision = -1
        while True:
            entry = await self._entries.get(self.key)
            if entry is not None and entry.revision == self._revision and self.state is not None:
                return self.saved
            self.state = None
            self._revision = 0 if entry is None else entry.revision
            if entry is None:
                return None
            if (saved := await self._decode(entry)) is not None:
                self.saved = saved
                return saved
            if entry.revision == revision:
                raise entry_damaged(self.key)
            # Its owner has written the next one, and deleted the parts of this one.
            revision = entry.revision

    async def _decode(self, entry: Entry) -> Saved | None:
        """What is saved; None if something of it is missing."""
        if (value := await self._join(entry)) is None:
            return None
        saved = Saved.decode(value)
        found = await self._pieces.read(saved.ranges)
        if found is None:
            return None
        pieces, earlier = found
        changes = (each for each in (*earlier, *saved.tail) if each[0] >= saved.first)
        self.state = replay(self.segment, saved.shape, changes)
        return replace(saved, pieces=pieces)

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
        await self._pieces.delete()

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
                self._pieces.owner = taken.owner
                await self._delete_pieces(taken.pieces)
                return kept
            except Conflict:
                continue

    async def _discard(self) -> Saved:
        """A new content in the place of the one that is there, even if that cannot be read."""
        entry = await self._entries.get(self.key)
        self._revision, self.state = 0 if entry is None else entry.revision, None
        generation = 0 if entry is None else _head(entry).get("generation", 0)
        return replace(Saved.new(), generation=generation)

    async def save(self, saved: Saved) -> None:
        """Writes the next state; raises `broker.taken-over` if another process owns it now."""
        while True:
            try:
                await self._write(await self._pieces.write(saved))
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
        is_smaller = saved.pieces[:1] != self.saved.pieces[:1]
        self.saved = saved
        if self._has_parts:
            await self._delete_parts(first)
        if is_smaller:
            await self._delete_pieces(saved.pieces)

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

    async def _delete_pieces(self, pieces: tuple[Piece, ...]) -> None:
        with contextlib.suppress(BrokerUnavailable, Refused):
            await self._pieces.delete_before(pieces[0].revision if pieces else self._revision)

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

    def __init__(self, entries: Sequence[SegmentEntry], call: Callable[[Any], Any]) -> None:
        self._entries = {entry.segment: entry for entry in entries}
        self._call = call

    def checkpoint(self, segment: str) -> SavedState | None:
        state = self._entries[segment].state
        return state if state is not None and state.parts else None

    def segments(self) -> list[str]:
        return list(self._entries)

    def replace_checkpoints(self, old: Sequence[str], new: Sequence[Checkpoint]) -> None:
        """Nodes have moved to other segments. A crash in between leaves a node in two entries, with
        one and the same state: at first entries only gain nodes."""
        states = {each.segment: replay(each.segment, each.shape, [(1, each.body)]) for each in new}
        for segment in old:
            kept = self._entries[segment].state
            before = kept.parts if kept is not None else {}
            parts = {**before, **(states[segment].parts if segment in states else {})}
            self._write(Checkpoint.whole(segment, _joined_shape(kept, states.get(segment)), parts))
        for segment in old:
            state = states.get(segment) or SavedState(segment, "{}")
            self._write(Checkpoint.whole(segment, state.shape, state.parts))

    def _write(self, checkpoint: Checkpoint) -> None:
        entry = self._entries[checkpoint.segment]
        self._call(entry.save(entry.saved.with_change(checkpoint)))

    def release(self) -> None:
        """The states have been given to the components."""
        for entry in self._entries.values():
            entry.state = None

    def logs(self) -> dict[str, LogStatistics]:
        return {}


def _joined_shape(*states: SavedState | None) -> str:
    shapes = [json.loads(state.shape) for state in states if state is not None]
    return json.dumps({node: name for shape in shapes for node, name in shape.items()})
