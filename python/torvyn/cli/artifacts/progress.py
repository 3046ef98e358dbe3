"""A line on a terminal that shows how much of an artifact was transferred."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from torvyn.cli.screen import Screen

_EVERY_S: Final = 0.1


class TransferProgress:
    """Counts bytes; its methods may be called from another thread."""

    def __init__(self, screen: Screen, verb: str) -> None:
        self._screen = screen
        self._verb = verb
        self._total = self._done = 0
        self._shown_s = 0.0
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        can_rewrite = is_terminal and os.environ.get("TERM") != "dumb"
        self._is_shown = can_rewrite and not screen.is_quiet and not screen.is_json

    def starts(self, size_bytes: int) -> None:
        self._total += size_bytes

    def advance(self, size_bytes: int) -> None:
        self._done += size_bytes
        if self._is_shown and time.monotonic() - self._shown_s > _EVERY_S:
            self._shown_s = time.monotonic()
            done = f"{size_text(self._done)} of {size_text(self._total)}"
            text = self._screen.paint(f"{self._verb} {done} ...", "dim")
            self._screen.stream_info(f"\r\x1b[K{text}")

    def clear(self) -> None:
        if self._is_shown and self._shown_s:
            self._screen.stream_info("\r\x1b[K")


@contextmanager
def transfer_progress(screen: Screen, verb: str) -> Iterator[TransferProgress]:
    progress = TransferProgress(screen, verb)
    try:
        yield progress
    finally:
        progress.clear()


def size_text(size_bytes: int) -> str:
    return (
        f"{size_bytes / 2**20:,.1f} MiB" if size_bytes >= 2**20 else f"{size_bytes / 1024:,.1f} KiB"
    )
