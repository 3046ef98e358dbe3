"""The background loop: an event loop on a daemon thread, one per process, for work that no loop of
the program runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from weakref import WeakSet

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid: int | None = None
_started: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
_ended: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def start_loop() -> asyncio.AbstractEventLoop:
    """A loop on a daemon thread of its own, for what may block it."""
    loop = asyncio.new_event_loop()
    _started.add(loop)
    threading.Thread(target=_run, args=(loop,), name="torvyn-loop", daemon=True).start()
    return loop


def end_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Ends a loop that `start_loop` has started, once nothing blocks it."""
    if loop in _ended:
        return
    _ended.add(loop)
    loop.call_soon_threadsafe(loop.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """A component that raises SystemExit must not end the loop for everything else on it."""
    while loop not in _ended:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop. The first call starts it, also in a forked process."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = start_loop(), os.getpid()
        return _loop


def discard_background_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Replaces a loop that a component blocks: later calls of `background_loop` get a new one."""
    global _loop
    with _lock:
        if _loop is loop:
            _loop = None


def is_background_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it runs on a thread of its own, and not in the program."""
    return loop in _started
