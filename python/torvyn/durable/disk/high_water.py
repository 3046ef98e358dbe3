"""Positions beside the database, by which lost commits are noticed.

SQLite ignores everything after a damaged frame of its WAL, so damage can undo commits without any
error. After each commit the store writes the positions of its logs to a small file. The file is not
synced: a kill leaves it complete, and after a power failure it may be old, which only means that
less is noticed. It is never ahead of what was durable.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torvyn.durable.log_state import LogState

_MAX_BYTES: Final = 64 * 1024
_HEADER: Final = b"TVHW1 "


@dataclass(frozen=True, slots=True)
class Mark:
    """`logs`: by name the id, `next` and `acknowledged`."""

    epoch: str
    logs: dict[str, tuple[int, int, int]]


class HighWaterFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Mark | None:
        """The last mark; None if there is none or it is damaged."""
        try:
            with self.path.open("rb") as file:
                return _decode(file.read(_MAX_BYTES))
        except OSError:
            return None

    def encode(self, epoch: str, states: Iterable[LogState]) -> bytes:
        """The mark of these states, which is written after their commit."""
        logs = {s.name: (s.id, s.next, s.acknowledged) for s in states}
        text = json.dumps([epoch, logs]).encode()
        return b"%s%08x %08x " % (_HEADER, zlib.crc32(text), len(text)) + text


def _decode(record: bytes) -> Mark | None:
    try:
        crc, length = int(record[6:14], 16), int(record[15:23], 16)
        text = record[24 : 24 + length]
        if not record.startswith(_HEADER) or zlib.crc32(text) != crc:
            return None
        epoch, logs = json.loads(text)
        return Mark(epoch, {name: (id, next, acked) for name, (id, next, acked) in logs.items()})
    except ValueError:
        return None
