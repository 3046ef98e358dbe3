"""The readings: what a sensor publishes, and what a gateway must deliver.

A reading carries its number and the time at which it was due, in microseconds of the monotonic
clock (all processes of a machine share it). Every gateway renames `value` to `celsius` and adds the
site; a delivered reading without both was not mapped, and the benchmark refuses the run.
"""

from __future__ import annotations

import re
import time
from typing import Final

TOPIC: Final = "sensors/temperature"
FILTER: Final = "sensors/#"
SITE: Final = "north"
WARM_UP: Final = 1_000_000_000
"""Readings from this number on only show that the gateway is connected; nobody counts them."""
_SEQ: Final = re.compile(rb'"seq": ?(\d+)')
_DUE: Final = re.compile(rb'"t": ?(\d+)')
_SHAPE: Final = b'{"seq": %d, "t": %d, "sensor": "s-%d", "value": %d.%d}'


def now_us() -> int:
    return time.monotonic_ns() // 1000


def reading(seq: int, due_us: int) -> bytes:
    """About 70 bytes of JSON."""
    return _SHAPE % (seq, due_us, seq % 100, 15 + seq % 20, seq % 10)


def numbers_and_times(body: bytes) -> tuple[list[int], list[int]]:
    """The numbers and due times in a delivered body, in its order."""
    seqs = [int(seq) for seq in _SEQ.findall(body)]
    dues = [int(due) for due in _DUE.findall(body)]
    if len(dues) != len(seqs):
        raise AssertionError(f"{len(seqs)} numbers but {len(dues)} times: {body[:200]!r}")
    if body.count(b'"celsius"') != len(seqs) or body.count(b'"site"') < len(seqs):
        raise AssertionError(f"readings that were not mapped: {body[:200]!r}")
    return seqs, dues
