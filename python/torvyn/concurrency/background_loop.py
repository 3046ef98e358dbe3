"""The background loop: an event loop on a daemon thread, one per process, for work that no loop of
the program runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid: int | None = None


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """A component that raises SystemExit must not end the loop for everything else on it."""
    while True:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop. The first call starts it, also in a forked process."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_run_forever, args=(loop,), name="torvyn-loop", daemon=True
            )
            thread.start()
            _loop, _pid = loop, os.getpid()
        return _loop


def discard_background_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Replaces a loop that a component blocks: later calls of `background_loop` get a new one."""
    global _loop
    with _lock:
        if _loop is loop:
            _loop = None


def is_background_loop(loop: asyncio.AbstractEventLoop) -> bool:
    return loop is _loop
