"""Ends the process with the command's exit code, even if a component's thread never ends."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Final, NoReturn

_FLUSH_S: Final = 0.5

_has_left_thread = False


def leave_thread_behind() -> None:
    """Makes the process exit without waiting for a stuck thread, or for a lock that it holds."""
    global _has_left_thread
    _has_left_thread = True
    if not _flushes():
        # The thread is stuck in a write and holds the lock of standard output.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def exit_with(code: int) -> NoReturn:
    if _has_left_thread:
        _flushes()
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _flushes() -> bool:
    """Whether flushing standard output ends, with or without an error."""

    def flush() -> None:
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()
    thread.join(_FLUSH_S)
    return not thread.is_alive()
