"""A loop on a daemon thread, one for a process: for what no loop of the program drives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

_lock = threading.Lock()
_background: asyncio.AbstractEventLoop | None = None
_background_pid: int | None = None


def _run_on(loop: asyncio.AbstractEventLoop) -> None:
    """For ever: a component that asks the program to end must not end the loop for all others."""
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop; made when it is first wanted, and anew in a forked process."""
    global _background, _background_pid
    with _lock:
        if _background is None or _background_pid != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run_on, args=(loop,), name="torvyn-loop", daemon=True).start()
            _background, _background_pid = loop, os.getpid()
        return _background


def discard(loop: asyncio.AbstractEventLoop) -> None:
    """Somebody's code blocks the loop: those who ask from now on get another one."""
    global _background
    with _lock:
        if _background is loop:
            _background = None


def is_background_loop(loop: asyncio.AbstractEventLoop) -> bool:
    return loop is _background
