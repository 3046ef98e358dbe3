"""The changes of a segment's states that are not in its entry any more.

A piece is written once, under a name that no other attempt and no other process uses, and before
the entry that names it. So whatever an entry names is there, and what no entry names is waste that
is deleted with the pieces before it.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from torvyn.jetstream import Entries, Entry
from torvyn.reactor.carriers.nats.entries.saved_segment import Piece, Saved

PIECE_BYTES: Final = 16 * 1024
"""The changes in an entry become a piece when they have so many bytes: half of it, on average, is
written again with every cut."""
_READS: Final = 64
"""How many pieces are asked for at once."""


class StatePieces:
    def __init__(self, entries: Entries, key: str, most_bytes: int) -> None:
        self._entries = entries
        self._prefix = f"{key}.state"
        self._most_bytes = most_bytes - 256
        """Of a piece without its head."""
        self._next = 0
        self.owner = ""

    async def write(self, saved: Saved) -> Saved:
        """Moves the changes of an entry that is about to be written to pieces, if they are many."""
        if sum(len(body) for _, body in saved.tail) < PIECE_BYTES:
            return saved
        last = saved.tail[-1][0]
        heads = json.dumps([[number, len(body)] for number, body in saved.tail]).encode()
        changes = b"".join((heads, b"\n", *(body for _, body in saved.tail)))
        slices = [bytes(each) for each in _slices(changes, self._most_bytes)]
        pieces = []
        for at, part in enumerate(slices):
            head = json.dumps([last, at, len(slices), zlib.crc32(part)]).encode()
            number, self._next = self._next, self._next + 1
            name = f"{self._prefix}.{self.owner}.{number}"
            revision = await self._entries.put(name, head + b"\n" + part)
            pieces.append(Piece(self.owner, number, last, revision))
        return replace(saved, tail=()).with_pieces((*saved.pieces, *pieces))

    async def read(
        self, ranges: Sequence[tuple[str, int, int]]
    ) -> tuple[tuple[Piece, ...], list[tuple[int, bytes]]] | None:
        """The pieces and the changes in them; None if one is missing or damaged."""
        names = [(owner, at) for owner, low, high in ranges for at in range(low, high + 1)]
        pieces: list[Piece] = []
        changes: list[tuple[int, bytes]] = []
        parts: list[bytes] = []
        for start in range(0, len(names), _READS):
            some = names[start : start + _READS]
            keys = [f"{self._prefix}.{owner}.{at}" for owner, at in some]
            entries = await asyncio.gather(*map(self._entries.get, keys))
            for (owner, number), entry in zip(some, entries, strict=True):
                found = _decode(entry)
                if entry is None or found is None or found[1] != len(parts):
                    return None
                last, at, count, part = found
                pieces.append(Piece(owner, number, last, entry.revision))
                parts.append(part)
                if at == count - 1:
                    changes += _changes(b"".join(parts))
                    parts = []
        return None if parts else (tuple(pieces), changes)

    async def delete(self) -> None:
        await self._entries.delete(f"{self._prefix}.>")

    async def delete_before(self, revision: int) -> None:
        await self._entries.delete_before(f"{self._prefix}.>", revision)


def _slices(body: bytes, size: int) -> Iterator[memoryview]:
    view = memoryview(body)
    return (view[at : at + size] for at in range(0, len(view), size))


def _decode(entry: Entry | None) -> tuple[int, int, int, bytes] | None:
    if entry is None:
        return None
    head, _, part = entry.value.partition(b"\n")
    last, at, count, checksum = json.loads(head)
    return (last, at, count, part) if zlib.crc32(part) == checksum else None


def _changes(body: bytes) -> Iterator[tuple[int, bytes]]:
    head, _, rest = body.partition(b"\n")
    at = 0
    for number, size in json.loads(head):
        yield number, rest[at : at + size]
        at += size
