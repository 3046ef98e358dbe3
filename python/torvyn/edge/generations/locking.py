"""Locks of deployments. A lock ends with the last process that has inherited it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torvyn.edge.failures import disk_failed, in_use

_POLL_S: Final = 0.02


@contextlib.contextmanager
def held_lock(path: Path, wait_s: float, what: str) -> Iterator[int]:
    """The descriptor of a locked file. `what` says what another process does that has the lock."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise disk_failed(path, error) from error
    try:
        _wait(lock, wait_s, what)
        yield lock
    finally:
        os.close(lock)


def _wait(lock: int, wait_s: float, what: str) -> None:
    until_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise in_use(what) from None
            time.sleep(_POLL_S)
        else:
            return
