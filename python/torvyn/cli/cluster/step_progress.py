"""A line for each step that takes a while: the time so far on a terminal, and how long it took."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from torvyn.cli.screen import Screen

_EVERY_S: Final = 0.2


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
        if done.wait(_EVERY_S):
            return
