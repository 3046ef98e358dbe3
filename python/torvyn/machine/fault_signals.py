"""Keeps the handlers of the signals that report faults of the processor.

The sandbox turns these signals into the traps of its guests. Libraries that install handlers of
their own after it (Ray does when it connects) would make a trap end the process.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FAULTS: Final = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE)
_HANDLER_BYTES: Final = 512
"""More than `struct sigaction` has on any system."""


@contextmanager
def kept_fault_handlers() -> Iterator[None]:
    """Afterwards the handlers are those of before, whatever the block has installed."""
    sigaction = ctypes.CDLL(None).sigaction
    before = {each: ctypes.create_string_buffer(_HANDLER_BYTES) for each in FAULTS}
    for each, handler in before.items():
        sigaction(int(each), None, handler)
    try:
        yield
    finally:
        for each, handler in before.items():
            sigaction(int(each), handler, None)
