"""A flow that somebody waits for at a terminal: signals cancel it, a closed pipe ends it quietly.

The first Ctrl-C (or SIGTERM) asks the flow to end: what a component is doing is finished, so that
no half-written record is left. A component that does not come back is broken off after a while; a
second signal ends the process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from torvyn.cli.failures import output_was_closed
from torvyn.cli.screen import flush_stdout
from torvyn.reactor.failure import own_interrupt

if TYPE_CHECKING:
    from torvyn.reactor import Flow, Statistics

PATIENCE_S: Final = 2.0
"""How long a component may keep a cancelled flow before it is broken off."""

_RUNNING: Final = ("instantiated", "running", "draining")
_OVER: Final = ("completed", "cancelled", "failed")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Outcome:
    """How an attended flow ended."""

    state: str
    """completed, failed, interrupted, terminated or unread (the reader of our output has gone)."""
    statistics: Statistics
    error: BaseException | None = None

    @property
    def exit_code(self) -> int:
        code = {"completed": 0, "unread": 0, "interrupted": 130, "terminated": 143}.get(self.state)
        return getattr(self.error, "exit_code", 1) if code is None else code


def attend(flow: Flow) -> Outcome:
    """Runs the flow to whatever end it has; raises nothing that the flow did."""
    error: BaseException | None = None
    # A thread that waits for the interpreter gets it within half a millisecond, not five.
    sys.setswitchinterval(0.0005)
    with SignalWatch(flow) as watch:
        try:
            flow.run()
            # A closed pipe must show up before the summary, not after it.
            flush_stdout()
        except KeyboardInterrupt as raised:
            # Without a signal nobody has pressed Ctrl-C: a component has raised it.
            error = own_interrupt(raised) if watch.caught is None else None
            if error is None:
                watch.caught = watch.caught or signal.SIGINT
        except Exception as raised:
            error = raised
    state = "completed"
    if watch.caught is not None:
        state = "terminated" if watch.caught == signal.SIGTERM else "interrupted"
    elif error is not None:
        state = "unread" if output_was_closed(error) else "failed"
    elif flow.state != "completed":
        state = "failed"
    return Outcome(state, flow.statistics, error)


class SignalWatch(AbstractContextManager["SignalWatch"]):
    """While it is entered, signals cancel the flow."""

    def __init__(self, flow: Flow) -> None:
        self.caught: int | None = None
        self._flow = flow
        self._before: dict[int, Any] = {}
        self._reading, self._writing = socket.socketpair()
        self._wakeup_before = -1
        self._waker = threading.Thread(target=self._wake, name="torvyn-signals", daemon=True)

    def __enter__(self) -> SignalWatch:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_patience_over)
        self._writing.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing.fileno())
        self._waker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.caught is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(self._wakeup_before)
        for number, before in self._before.items():
            signal.signal(number, before)
        self._writing.close()
        self._waker.join()
        self._reading.close()

    def _wake(self) -> None:
        # A signal that arrives as the main thread goes to sleep does not end its sleep, and the
        # handlers run nowhere else: this thread hears of every signal and wakes the flow for them.
        while self._reading.recv(16):
            if self._flow.state in _RUNNING:
                self._flow.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.caught is not None:
            os._exit(128 + number)
        self.caught = number
        if self._flow.state in _RUNNING:
            self._flow.cancel()
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
        elif self._flow.state not in _OVER:
            raise KeyboardInterrupt

    def _on_patience_over(self, number: int, frame: FrameType | None) -> None:
        if self.caught is not None and self._flow.state not in _OVER:
            raise KeyboardInterrupt
