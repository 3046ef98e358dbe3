"""What belongs to the whole process: its signals, the handlers of faults, and the switch interval.

SIGINT and SIGTERM are handled here alone. A handler lives as long as its `with` block, on the main
thread, and restores what was there before.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import asyncio

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class SignalHandler:
    """Calls `on_signal` with the number, at once, in the middle of what the main thread does.

    The signal after `limit` others ends the process. With a `loop`, a signal also wakes the loop:
    without that, one that arrives just before the loop goes to sleep would wait until it wakes.
    """

    def __init__(
        self,
        on_signal: Callable[[int], Any] | None = None,
        *,
        limit: int | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.received: list[int] = []
        self._on_signal = on_signal
        self._limit = limit
        self._loop = loop
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            self._previous[number] = signal.getsignal(number)
            if self._loop is not None:
                self._loop.add_signal_handler(number, _wake_loop)
            signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, previous in self._previous.items():
            if self._loop is not None:
                self._loop.remove_signal_handler(number)
            signal.signal(number, previous)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
        if self._limit is not None and len(self.received) > self._limit:
            os._exit(128 + number)
        if self._on_signal is not None:
            self._on_signal(number)


class SignalWaiter(SignalHandler):
    """Lets the main thread sleep until a signal, a call of `wake`, or a time."""

    def __init__(self, *, limit: int | None = None) -> None:
        super().__init__(limit=limit)
        self._receiver, self._sender = socket.socketpair()
        self._previous_fd = -1

    def __enter__(self) -> Self:
        super().__enter__()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        # Python writes a byte here for each signal: one that arrives as the thread goes to sleep
        # is not missed.
        self._previous_fd = signal.set_wakeup_fd(self._sender.fileno())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._previous_fd)
        super().__exit__(kind, error, traceback)
        self._sender.close()
        self._receiver.close()

    def wait(self, until_s: float | None) -> None:
        """Sleeps; `until_s` is a time of `time.monotonic`."""
        timeout_s = None if until_s is None else max(until_s - time.monotonic(), 0.0)
        select.select([self._receiver], [], [], timeout_s)
        with suppress(BlockingIOError):
            self._receiver.recv(4096)

    def wake(self) -> None:
        """Ends a `wait`, from any thread."""
        # The buffer is full, so the thread is awake; or the block has ended.
        with suppress(OSError):
            self._sender.send(b"\0")


def _wake_loop() -> None:
    """The loop is awake when it calls this, which is all it has to do."""


_INTERVAL_S: Final = 0.0005
"""Python's own is 5 ms, which a stream's reader would notice."""


def shorten_switch_interval() -> None:
    """Threads that wait for the interpreter get it sooner; for commands that own the process."""
    sys.setswitchinterval(_INTERVAL_S)


FAULTS: Final = (signal.SIGILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE)
_HANDLER_BYTES: Final = 512
"""More than `struct sigaction` has on any system."""


@contextmanager
def kept_fault_handlers() -> Iterator[None]:
    """Afterwards the handlers are those of before, whatever the block has installed.

    The sandbox turns these signals into the traps of its guests. Libraries that install handlers of
    their own after it (Ray does when it connects) would make a trap end the process.
    """
    import ctypes

    sigaction = ctypes.CDLL(None).sigaction
    before = {each: ctypes.create_string_buffer(_HANDLER_BYTES) for each in FAULTS}
    for each, handler in before.items():
        sigaction(int(each), None, handler)
    try:
        yield
    finally:
        for each, handler in before.items():
            sigaction(int(each), handler, None)
