"""Runs a flow for a command: the flow runs on a separate thread, the main thread handles signals.

The first Ctrl-C (or SIGTERM) drains the flow: the sources stop, and the elements in the flow still
reach the sinks, within `drain_timeout`. The second cancels it, the third ends the process. A
component that does not return is reported with its stack, and its thread is abandoned.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from torvyn.cli.failures import output_was_closed
from torvyn.cli.process_exit import leave_thread_behind
from torvyn.cli.screen import end_output
from torvyn.concurrency.signals import SignalWaiter
from torvyn.concurrency.switch_interval import shorten_switch_interval
from torvyn.errors import Internal

if TYPE_CHECKING:
    from torvyn.cli.supervision.supervisor import Supervisor
    from torvyn.reactor import Flow, Statistics

logger = logging.getLogger("torvyn.cli")

GRACE_S: Final = 1.0
"""How long a component may delay the end of a flow."""

_NOTICE_S: Final = 1.0
"""A drain that takes longer is announced."""

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """The end of a flow."""

    state: str
    """completed, failed, interrupted, terminated or unread (standard output was closed)."""
    statistics: Statistics
    error: BaseException | None = None

    @property
    def exit_code(self) -> int:
        code = {"completed": 0, "unread": 0, "interrupted": 130, "terminated": 143}.get(self.state)
        return getattr(self.error, "exit_code", 1) if code is None else code


def run_in_foreground(
    flow: Flow, notice: Notice | None = None, supervisor: Supervisor | None = None
) -> Outcome:
    """Runs the flow to its end; its errors are in the outcome. Calls `notice` if draining takes
    long."""
    shorten_switch_interval()
    with SignalWaiter(limit=2) as signals:
        run = ForegroundRun(flow, signals, notice, supervisor)
        run.wait()
    return run.outcome()


class ForegroundRun:
    """The main thread's side of one flow."""

    def __init__(
        self,
        flow: Flow,
        signals: SignalWaiter,
        notice: Notice | None,
        supervisor: Supervisor | None,
    ) -> None:
        self._flow = flow
        self._supervisor = supervisor
        self._notice = notice or (lambda text: None)
        self._signals = signals
        self._signals_handled = 0
        self._error: BaseException | None = None
        self._give_up_s: float | None = None
        self._notice_s: float | None = None
        self._has_given_up = False
        self._is_done = self._is_left_behind = False
        self._thread = threading.Thread(target=self._run, name="torvyn-flow", daemon=True)

    def _run(self) -> None:
        try:
            wake = self._signals.wake
            self._flow._run(is_abandonable=True, on_start=self._on_start, on_end=wake)
            # A closed pipe must be noticed before the summary is printed.
            end_output()
        except Exception as raised:
            self._error = raised
        except BaseException as raised:
            # `sys.exit()` in a component fails the flow; it does not end the command.
            self._error = Internal(f"a component raised {type(raised).__name__}: {raised}")
            self._error.__cause__ = raised
        self._is_done = True
        self._signals.wake()

    def _on_start(self) -> None:
        if self._supervisor is not None:
            self._supervisor.started()
            self._signals.wake()

    def wait(self) -> None:
        """Waits until the flow has ended, or its thread is abandoned."""
        self._thread.start()
        while not self._is_over():
            self._signals.wait(self._next_due_s())
            if len(self._signals.received) > self._signals_handled:
                self._signals_handled += 1
                self._on_signal(self._signals_handled)
            elif _has_passed(self._give_up_s):
                self._give_up()
            elif _has_passed(self._notice_s):
                self._notice_s = None
                self._notice("Draining the flow; a second Ctrl-C or SIGTERM cancels it.")
            elif self._supervisor is not None and _has_passed(self._supervisor.due_s):
                self._supervisor.tick()

    def _next_due_s(self) -> float | None:
        supervised_s = None if self._supervisor is None else self._supervisor.due_s
        times = (self._give_up_s, self._notice_s, supervised_s)
        return min((due_s for due_s in times if due_s is not None), default=None)

    def _is_over(self) -> bool:
        execution = self._flow._execution
        is_left = (
            execution is not None
            and execution.abandonment.has_left_thread
            and execution.events.over.is_set()
        )
        return self._is_done or is_left or self._is_left_behind

    def _on_signal(self, count: int) -> None:
        native = None if self._flow._execution is None else self._flow._execution.native
        is_running = native is not None and not native.is_over
        grace_s = GRACE_S
        if count == 1 and self._supervisor is not None:
            self._supervisor.stopping()
        if count == 1 and is_running:
            self._flow.drain()
            grace_s += self._flow.plan.runtime.drain_timeout_s
            self._notice_s = time.monotonic() + _NOTICE_S
        else:
            self._flow.cancel()
            self._notice_s = None
        self._give_up_s = time.monotonic() + grace_s

    def _give_up(self) -> None:
        """A component blocks the flow's thread: lets another thread tear down the rest."""
        execution = self._flow._execution
        runtime = self._flow.plan.runtime
        if execution is None or self._has_given_up:
            # Nothing has been initialised yet, or the teardown has used up its time.
            self._is_left_behind = True
            return
        self._has_given_up = True
        left_s = runtime.teardown_timeout_s * len(execution.runners)
        self._give_up_s = time.monotonic() + left_s + GRACE_S
        execution.abandonment.give_up()

    def outcome(self) -> Outcome:
        error = self._error
        if not self._is_done:
            leave_thread_behind()
            error = self._flow.error
        state = "completed"
        if self._signals.received:
            is_term = self._signals.received[0] == signal.SIGTERM
            state = "terminated" if is_term else "interrupted"
        elif error is not None:
            state = "unread" if output_was_closed(error) else "failed"
        elif self._flow.state != "completed":
            state = "failed"
        return Outcome(state, self._flow.statistics, error)


def _has_passed(time_s: float | None) -> bool:
    return time_s is not None and time.monotonic() >= time_s
