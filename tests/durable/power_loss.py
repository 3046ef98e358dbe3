"""What a power failure leaves on a disk, from a log of writes and syncs.

A write is safe once a sync of its file succeeded after it. Others are on the disk, or not, or in
part, in units of 512 bytes. A failed sync loses the writes before it, even if a later one succeeds:
that is how Linux treats them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512


@dataclass(frozen=True)
class Event:
    kind: str
    """W: write, T: truncate, S: sync, F: failed sync, U: unlink, N: note."""
    name: str
    offset: int
    data: bytes


def read_events(log: Path) -> list[Event]:
    data, at, events = log.read_bytes(), 0, []
    while at < len(data):
        kind = chr(data[at])
        length, offset, size = struct.unpack_from("<qqq", data, at + 1)
        name = Path(data[at + 25 : at + 25 + length].decode()).name
        at += 25 + length
        body = data[at : at + size] if kind == "W" else b""
        at += len(body)
        events.append(Event(kind, name, offset, body))
    return events


@dataclass
class DiskFile:
    safe: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)

    def apply(self, event: Event) -> None:
        if event.kind == "S":
            for write in self.pending:
                put(self.safe, write)
            self.pending = []
        elif event.kind == "F":
            self.pending = []
        else:
            self.pending.append(event)

    def after_power_loss(self, dice: random.Random) -> bytes:
        content = bytearray(self.safe)
        for event in self.pending:
            for part in parts(event) if dice.random() < 0.5 else ():
                if dice.random() < 0.8:
                    put(content, part)
        return bytes(content)


def put(content: bytearray, event: Event) -> None:
    if event.kind == "T":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return
    content.extend(bytes(max(0, event.offset - len(content))))
    content[event.offset : event.offset + len(event.data)] = event.data


def parts(event: Event) -> Iterator[Event]:
    if event.kind == "T":
        yield event
    for start in range(0, len(event.data), SECTOR):
        data = event.data[start : start + SECTOR]
        yield Event("W", event.name, event.offset + start, data)


def images(
    events: list[Event], moments: list[int], dice: random.Random
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """For each moment, in order: the last note before it, and the files on the disk."""
    files: dict[str, DiskFile] = {}
    noted, wanted = 0, sorted(moments)
    for index, event in enumerate(events):
        while wanted and wanted[0] == index:
            wanted.pop(0)
            yield noted, {name: file.after_power_loss(dice) for name, file in files.items()}
        if event.kind == "N":
            noted = event.offset
        elif event.kind == "U":
            files.pop(event.name, None)
        else:
            files.setdefault(event.name, DiskFile()).apply(event)
