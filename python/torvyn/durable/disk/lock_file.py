"""One process per store: an advisory lock that ends with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from torvyn.durable.failures import in_use


class LockFile:
    def __init__(self, path: Path, store: Path) -> None:
        """Raises `durable.in-use` if another process, or another store of this one, has it."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise in_use(store, pid) from None
        with contextlib.suppress(OSError):  # a full disk
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        # The file stays: whoever removes it could remove another process's lock.
        os.close(self._descriptor)
