"""What a worker learns from its parent by a pipe: that the parent is gone, or that all workers end.

A worker whose parent is gone ends, as after SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from typing import Final

ENDS_ALL: Final = b"\n"
"""The parent writes it before it ends all of its workers."""


class ParentPipe:
    """Watches standard input, whose other end only the parent has, for as long as the running loop
    lives."""

    def __init__(self) -> None:
        self._ends_all = False
        asyncio.get_running_loop().add_reader(0, self._read)

    def ends_all(self) -> bool:
        """Whether the parent ends all workers. One that is ended alone is started again, and the
        others answer meanwhile."""
        if not self._ends_all and select.select([0], [], [], 0)[0]:
            self._read()
        return self._ends_all

    def _read(self) -> None:
        self._ends_all = True
        if os.read(0, 4096):
            return
        asyncio.get_running_loop().remove_reader(0)
        os.kill(os.getpid(), signal.SIGTERM)
