"""The end of the process: with the command's exit code, also when a component keeps a thread."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Final, NoReturn

_FLUSH_S: Final = 0.5

_has_left_thread = False


def leave_thread_behind() -> None:
    """Some thread will not end: the process must not wait for it, nor for what it locks."""
    global _has_left_thread
    _has_left_thread = True
    if not _flushes():
        # It is stuck in a write, with the lock of standard output in its hand.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def exit_with(code: int) -> NoReturn:
    if _has_left_thread:
        _flushes()
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _flushes() -> bool:
    """Whether standard output can be flushed, or cannot for a reason that is not ours to wait
    for."""

    def flush() -> None:
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()

    flushing = threading.Thread(target=flush, daemon=True)
    flushing.start()
    flushing.join(_FLUSH_S)
    return not flushing.is_alive()
