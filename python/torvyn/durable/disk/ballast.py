"""A reserve of disk space, freed when the disk is full.

Deleting what was delivered also writes: to the WAL, and on a checkpoint to the database. Without a
reserve, a full disk could not be drained.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Ballast:
    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path, self._size_bytes = path, size_bytes
        self.is_there = False
        """As far as this process knows: asking the disk would take time in every commit."""

    def create(self) -> bool:
        """Reserves the space; False if there is too little."""
        if self.is_there:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._size_bytes)
                # A larger one is left from higher limits.
                os.ftruncate(descriptor, self._size_bytes)
            finally:
                os.close(descriptor)
        except OSError:
            self.free()
            return False
        self.is_there = True
        return True

    def free(self) -> None:
        self.is_there = False
        with contextlib.suppress(OSError):
            os.unlink(self._path)
