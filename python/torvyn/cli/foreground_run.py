"""A flow that somebody waits for at a terminal: it runs on a thread of its own, and the main thread
attends to signals and to the end.

The first Ctrl-C (or SIGTERM) drains: the sources stop, and what is inside still reaches the sinks,
within `drain_timeout`. The second cancels, the third ends the process. A component that does not
return is reported with its stack and left behind with its thread; the command ends without it.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from torvyn.cli.failures import output_was_closed
from torvyn.cli.process_exit import leave_thread_behind
from torvyn.cli.screen import flush_stdout
from torvyn.errors import Internal

if TYPE_CHECKING:
    from torvyn.reactor import Flow, Statistics

logger = logging.getLogger("torvyn.cli")

PATIENCE_S: Final = 1.0
"""How long a component may keep a flow that was cancelled, or that is over."""

_NOTICE_S: Final = 1.0
"""A drain that takes longer is worth a word."""

Notice = Callable[[str], None]

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


def attend(flow: Flow, notice: Notice | None = None) -> Outcome:
    """Runs the flow to whatever end it has; raises nothing that the flow did. `notice` is told
    when a signal takes its time."""
    # A thread that waits for the interpreter gets it within half a millisecond, not five.
    sys.setswitchinterval(0.0005)
    with Wakeups() as wakeups:
        attendance = Attendance(flow, wakeups, notice)
        attendance.wait()
    return attendance.outcome()


class Attendance:
    """The main thread's side of one flow."""

    def __init__(self, flow: Flow, wakeups: Wakeups, notice: Notice | None) -> None:
        self._flow = flow
        self._notice = notice or (lambda text: None)
        self._wakeups = wakeups
        self._heard = 0
        self._error: BaseException | None = None
        self._give_up_s: float | None = None
        self._notice_s: float | None = None
        self._has_given_up = False
        self._is_done = self._is_left_behind = False
        self._thread = threading.Thread(target=self._run, name="torvyn-flow", daemon=True)

    def _run(self) -> None:
        try:
            self._flow._run(is_abandonable=True, on_end=self._wakeups.wake)
            # A closed pipe must show up before the summary, not after it.
            flush_stdout()
        except Exception as raised:
            self._error = raised
        except BaseException as raised:
            # `sys.exit()` in a component ends its flow, not our account of it.
            self._error = Internal(f"a component raised {type(raised).__name__}: {raised}")
            self._error.__cause__ = raised
        self._is_done = True
        self._wakeups.wake()

    def wait(self) -> None:
        """Until the flow has ended, or goes on without us."""
        self._thread.start()
        while not self._is_over():
            times = [due_s for due_s in (self._give_up_s, self._notice_s) if due_s is not None]
            self._wakeups.wait(min(times, default=None))
            if len(self._wakeups.signals) > self._heard:
                self._heard += 1
                self._on_signal(self._heard)
            elif _has_passed(self._give_up_s):
                self._give_up()
            elif _has_passed(self._notice_s):
                self._notice_s = None
                self._notice("Draining; a second signal cancels.")

    def _is_over(self) -> bool:
        execution = self._flow._execution
        is_left = (
            execution is not None
            and execution.abandonment.has_left_thread
            and execution.over.is_set()
        )
        return self._is_done or is_left or self._is_left_behind

    def _on_signal(self, count: int) -> None:
        native = None if self._flow._execution is None else self._flow._execution.native
        is_running = native is not None and not native.is_over
        patience_s = PATIENCE_S
        if count == 1 and is_running:
            self._flow.drain()
            patience_s += self._flow.plan.runtime.drain_timeout_s
            self._notice_s = time.monotonic() + _NOTICE_S
        else:
            self._flow.cancel()
            self._notice_s = None
        self._give_up_s = time.monotonic() + patience_s

    def _give_up(self) -> None:
        """Some component keeps the flow's thread, or another one tears down what is left."""
        execution = self._flow._execution
        runtime = self._flow.plan.runtime
        if execution is None or self._has_given_up:
            # Nothing has been initialised yet, or the teardown has had all its time.
            self._is_left_behind = True
            return
        self._has_given_up = True
        left_s = runtime.teardown_timeout_s * len(execution.runners)
        self._give_up_s = time.monotonic() + left_s + PATIENCE_S
        execution.abandonment.give_up()

    def outcome(self) -> Outcome:
        error = self._error
        if not self._is_done:
            leave_thread_behind()
            error = self._flow.error
        state = "completed"
        if self._wakeups.signals:
            is_term = self._wakeups.signals[0] == signal.SIGTERM
            state = "terminated" if is_term else "interrupted"
        elif error is not None:
            state = "unread" if output_was_closed(error) else "failed"
        elif self._flow.state != "completed":
            state = "failed"
        return Outcome(state, self._flow.statistics, error)


def _has_passed(time_s: float | None) -> bool:
    return time_s is not None and time.monotonic() >= time_s


class Wakeups(AbstractContextManager["Wakeups"]):
    """What the main thread sleeps on: signals, and bytes from other threads. A signal that arrives
    as it goes to sleep is not missed: Python writes a byte for each."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._before: dict[int, Any] = {}
        self._reading, self._writing = socket.socketpair()
        self._wakeup_before = -1

    def __enter__(self) -> Wakeups:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing.fileno())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, before in self._before.items():
            signal.signal(number, before)
        self._writing.close()
        self._reading.close()

    def wait(self, until_s: float | None) -> None:
        timeout_s = None if until_s is None else max(until_s - time.monotonic(), 0.0)
        select.select([self._reading], [], [], timeout_s)
        with suppress(BlockingIOError):
            self._reading.recv(4096)

    def wake(self) -> None:
        with suppress(OSError):  # Full, so it is awake; or closed, when a late thread comes back.
            self._writing.send(b"\0")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        if len(self.signals) > 2:
            os._exit(128 + number)
