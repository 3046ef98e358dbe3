"""How `max_bytes` is divided, and what a row occupies.

The sum of the logs' `max_bytes` limits everything that the store has on disk: the database, its WAL
and the ballast. The WAL and the ballast get a fixed part; the rest is for the pages of the
database, each log having the share that its `max_bytes` is of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PAGE_BYTES: Final = 4096
FRAME_BYTES: Final = PAGE_BYTES + 24
"""A page in the WAL."""
_WAL_HEADER_BYTES: Final = 32
_OVERFLOW_BYTES: Final = PAGE_BYTES - 4
_LOCAL_BYTES: Final = PAGE_BYTES - 35
"""Larger records continue on overflow pages."""
_RECORD_BYTES: Final = 64
"""A record without its body, and its cell pointer."""
_MIN_WAL_BYTES: Final = 256 * 1024
_MAX_WAL_BYTES: Final = 8 * 1024 * 1024
_FIXED_PAGES: Final = 24
"""Roots, pointer maps and the tables without bodies."""
_SIDE_FILES_BYTES: Final = 2 * PAGE_BYTES
"""The high-water mark and the lock file."""


@dataclass(frozen=True, slots=True)
class Budget:
    total_bytes: int
    wal_bytes: int
    ballast_bytes: int
    database_bytes: int

    @classmethod
    def of(cls, limits_bytes: Iterable[int]) -> Budget:
        total = sum(limits_bytes)
        wal = min(max(total // 6, _MIN_WAL_BYTES), _MAX_WAL_BYTES)
        # A checkpoint writes at most the pages of the WAL to the database.
        ballast = min(wal // 2 + 16 * PAGE_BYTES, total // 8)
        return cls(total, wal, ballast, total - wal - ballast - _SIDE_FILES_BYTES)

    @property
    def max_deleted_rows(self) -> int:
        """Rows that one transaction may delete: each changes a page, which goes to the WAL."""
        return max(self.wal_bytes // FRAME_BYTES // 4, 8)

    def log_bytes(self, max_bytes: int) -> int:
        """What the rows of a log may occupy."""
        fixed = _FIXED_PAGES * PAGE_BYTES + self.database_bytes // 256
        return (self.database_bytes - fixed) * max_bytes // self.total_bytes

    def row_limit_bytes(self, max_bytes: int) -> int:
        """The largest body, and the most of all in a transaction, which must fit into the WAL."""
        in_wal = self.wal_bytes * 3 // 4 - _WAL_HEADER_BYTES - _FIXED_PAGES * FRAME_BYTES
        pages = min(in_wal // FRAME_BYTES, self.log_bytes(max_bytes) // 2 // PAGE_BYTES) - 2
        return pages * _OVERFLOW_BYTES


def row_cost(body_bytes: int) -> int:
    """The disk space of a row in the database, rounded up."""
    record = body_bytes + _RECORD_BYTES
    if record > _LOCAL_BYTES:
        return (record // _OVERFLOW_BYTES + 1) * PAGE_BYTES
    return PAGE_BYTES if record > PAGE_BYTES // 2 else record + record // 4


ROW_COST_SQL: Final = (
    f"CASE WHEN length(body) + {_RECORD_BYTES} > {_LOCAL_BYTES}"
    f" THEN ((length(body) + {_RECORD_BYTES}) / {_OVERFLOW_BYTES} + 1) * {PAGE_BYTES}"
    f" WHEN length(body) + {_RECORD_BYTES} > {PAGE_BYTES // 2} THEN {PAGE_BYTES}"
    f" ELSE length(body) + {_RECORD_BYTES} + (length(body) + {_RECORD_BYTES}) / 4 END"
)
"""`row_cost` as an expression over `rows`."""


def wal_cost(appended_bytes: int) -> int:
    """The WAL space of a transaction that appends rows of this cost."""
    pages = appended_bytes // PAGE_BYTES + 1
    return (pages + pages // 256 + _FIXED_PAGES) * FRAME_BYTES
