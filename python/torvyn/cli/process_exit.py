"""Ends the process with the command's exit code, even if a component's thread never ends."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Final, NoReturn

_FLUSH_S: Final = 0.5
_STREAMS: Final = ("stdout", "stderr")

_has_left_thread = False


def leave_thread_behind() -> None:
    """Makes the process exit without waiting for a stuck thread, or for a lock that it holds."""
    global _has_left_thread
    _has_left_thread = True
    for name in _STREAMS:
        if not _flushes(name):
            # The thread is stuck in a write and holds the lock of the stream, or of both.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def exit_with(code: int) -> NoReturn:
    if _has_left_thread:
        for name in _STREAMS:
            _flushes(name)
        os._exit(code)
    sys.exit(code)


def _flushes(name: str) -> bool:
    """Whether flushing this standard stream ends, with or without an error."""

    def flush() -> None:
        with suppress(OSError, ValueError, AttributeError):
            getattr(sys, name).flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(_FLUSH_S)
    return not thread.is_alive()
