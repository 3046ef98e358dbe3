"""Progress on a terminal: how much was transferred, and a line for each slow step."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from torvyn._cli.screen import Screen

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


_STEP_EVERY_S: Final = 0.2


@contextmanager
def show_step(screen: Screen, what: str) -> Iterator[None]:
    """`[torvyn] Starting Ray ... 4.1 s`. A step that fails leaves no line."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    done = threading.Event()
    begin_s = time.monotonic()
    if is_terminal and os.environ.get("TERM") != "dumb":
        clock = threading.Thread(target=_tick, args=(screen, what, begin_s, done), daemon=True)
        clock.start()
        try:
            yield
        finally:
            done.set()
            clock.join()
            screen.stream_info("\r\x1b[K")
    else:
        yield
    screen.info(f"[torvyn] {what} ... {time.monotonic() - begin_s:.1f} s")


def _tick(screen: Screen, what: str, begin_s: float, done: threading.Event) -> None:
    while True:
        text = f"[torvyn] {what} ... {time.monotonic() - begin_s:.0f} s"
        screen.stream_info("\r\x1b[K" + screen.paint(text, "dim"))
        if done.wait(_STEP_EVERY_S):
            return
