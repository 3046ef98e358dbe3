"""Runs the flows of a command: on separate threads, while the main thread handles signals.

The first Ctrl-C (or SIGTERM) drains all flows: the sources stop, and the elements in the flows
still reach the sinks, within `drain_timeout`. The second cancels them, the third ends the process.
A component that does not return is reported with its stack, and its thread is abandoned.

A flow that is alone runs on its thread. Several share the workers, by their priorities, and their
threads wait for them.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from torvyn._io.line_output import line_prefix
from torvyn._io.process import shorten_switch_interval
from torvyn.cli.failures import output_was_closed
from torvyn.cli.process_exit import leave_thread_behind
from torvyn.cli.screen import end_output
from torvyn.errors import Internal

if TYPE_CHECKING:
    from torvyn._io.process import SignalWaiter
    from torvyn.cli.supervision.supervisor import Supervisor
    from torvyn.reactor import Flow, Statistics

logger = logging.getLogger("torvyn.cli")

GRACE_S: Final = 1.0
"""How long a component may delay the end of a flow."""

_NOTICE_S: Final = 1.0
"""A drain that takes longer is announced."""

Notice = Callable[[str], None]
OnEnd = Callable[["ForegroundRun"], "ForegroundRun | None"]


@dataclass(frozen=True)
class Outcome:
    """The end of a flow."""

    state: str
    """completed, failed, interrupted, terminated, drained (because of another flow; its state is
    saved) or unread (standard output was closed)."""
    statistics: Statistics
    error: BaseException | None = None
    shown_code: int | None = None
    """The exit code of the error, once it was shown."""

    @property
    def exit_code(self) -> int:
        if self.shown_code is not None:
            return self.shown_code
        codes = {"completed": 0, "drained": 0, "unread": 0, "interrupted": 130, "terminated": 143}
        code = codes.get(self.state)
        return getattr(self.error, "exit_code", 1) if code is None else code


def run_in_foreground(flow: Flow) -> Outcome:
    """Runs one flow to its end; its errors are in the outcome."""
    with Foreground() as foreground:
        run = foreground.prepare(flow)
        foreground.run([run])
        return run.outcome()


class Foreground:
    """The main thread's side of the flows of a command, within a `with` block."""

    def __init__(self, notice: Notice | None = None, supervisor: Supervisor | None = None) -> None:
        """Calls `notice` if draining takes long."""
        # It imports asyncio, which `torvyn run --help` does not need.
        from torvyn._io.process import SignalWaiter as NewSignalWaiter

        self._notice = notice or (lambda text: None)
        self._supervisor = supervisor
        self._signals: SignalWaiter = NewSignalWaiter(limit=2)
        self._signals_handled = 0
        self._notice_s: float | None = None
        self._running: list[ForegroundRun] = []

    def __enter__(self) -> Self:
        shorten_switch_interval()
        self._signals.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._signals.__exit__(kind, error, traceback)

    def prepare(
        self,
        flow: Flow,
        *,
        prefix: str | None = None,
        on_start: Callable[[], None] | None = None,
        on_end: OnEnd = lambda run: None,
    ) -> ForegroundRun:
        """The run of a flow, for `run`. With a `prefix` of its lines, it shares the workers with
        other flows."""
        return ForegroundRun(flow, self._signals, prefix, on_start, on_end)

    def run(self, runs: Iterable[ForegroundRun]) -> None:
        """Runs flows until all have ended, or their threads are abandoned. Raises the first error
        of an `on_end` then."""
        running = self._running = [*runs]
        for run in running:
            run.start()
        failure: Exception | None = None
        while running:
            self._signals.wait(self._next_due_s())
            self._look()
            for run in [run for run in running if run.is_over]:
                running.remove(run)
                follower = None
                try:
                    follower = run.on_end(run)
                except Exception as error:
                    # Its lines cannot be written: the others drain, so that they are torn down.
                    if not output_was_closed(error):
                        failure = failure or error
                    self.drain()
                if follower is not None:
                    running.append(follower)
                    follower.start()
        if failure is not None:
            raise failure

    def drain(self) -> bool:
        """Drains the flows that still run; false if none does."""
        if self._running and self._supervisor is not None:
            self._supervisor.stopping()
        for run in self._running:
            run.stop(is_first=True)
        return bool(self._running)

    def _look(self) -> None:
        """Does what a signal or the time demands."""
        if len(self._signals.received) > self._signals_handled:
            self._signals_handled += 1
            self._on_signal(is_first=self._signals_handled == 1)
        elif _has_passed(self._notice_s):
            self._notice_s = None
            what, it = ("the flow", "it") if len(self._running) == 1 else ("the flows", "them")
            self._notice(f"Draining {what}; a second Ctrl-C or SIGTERM cancels {it}.")
        elif self._supervisor is not None and _has_passed(self._supervisor.due_s):
            self._supervisor.tick()
        for run in self._running:
            run.look()

    def _on_signal(self, *, is_first: bool) -> None:
        if is_first and self._supervisor is not None:
            self._supervisor.stopping()
        is_draining = [run.stop(is_first=is_first) for run in self._running]
        self._notice_s = time.monotonic() + _NOTICE_S if any(is_draining) else None

    def _next_due_s(self) -> float | None:
        supervised_s = None if self._supervisor is None else self._supervisor.due_s
        times = (self._notice_s, supervised_s, *(run.due_s for run in self._running))
        return min((due_s for due_s in times if due_s is not None), default=None)


class ForegroundRun:
    """One flow: the thread that runs it, or waits for it, and what the main thread does to it."""

    def __init__(
        self,
        flow: Flow,
        signals: SignalWaiter,
        prefix: str | None,
        on_start: Callable[[], None] | None,
        on_end: OnEnd,
    ) -> None:
        self.flow = flow
        self.on_end = on_end
        """Called on the main thread. It may return the run that follows this one."""
        self.due_s: float | None = None
        """When the run is given up, unless it ends before."""
        self._signals = signals
        self._is_shared = prefix is not None
        self._line_prefix = prefix or ""
        self._on_start = on_start
        self._error: BaseException | None = None
        self._has_given_up = self._is_draining = False
        self._is_done = self._is_left_behind = False
        self._thread = threading.Thread(target=self._run, name="torvyn-flow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        line_prefix.set(self._line_prefix)
        try:
            self.flow._run(
                is_abandonable=True,
                is_shared=self._is_shared,
                on_start=self._started,
                on_end=self._signals.wake,
            )
            # A closed pipe must be noticed before the summary is printed.
            end_output(self._line_prefix)
        except Exception as raised:
            self._error = raised
        except BaseException as raised:
            # `sys.exit()` in a component fails the flow; it does not end the command.
            self._error = Internal(f"a component raised {type(raised).__name__}: {raised}")
            self._error.__cause__ = raised
        self._is_done = True
        self._signals.wake()

    def _started(self) -> None:
        if self._on_start is not None:
            self._on_start()
            self._signals.wake()

    @property
    def is_over(self) -> bool:
        execution = self.flow._execution
        is_left = self._has_left_thread and execution is not None and execution.events.over.is_set()
        return self._is_done or is_left or self._is_left_behind

    @property
    def _has_left_thread(self) -> bool:
        execution = self.flow._execution
        return execution is not None and execution.abandonment.has_left_thread

    def stop(self, *, is_first: bool) -> bool:
        """Drains the flow, or cancels it if it was told to stop before or does not run yet.
        Returns whether it drains."""
        native = None if self.flow._execution is None else self.flow._execution.native
        is_draining = is_first and native is not None and not native.is_over
        grace_s = GRACE_S
        self._is_draining |= is_draining
        if is_draining:
            self.flow.drain()
            grace_s += self.flow.plan.runtime.drain_timeout_s
        else:
            self.flow.cancel()
        self.due_s = time.monotonic() + grace_s
        return is_draining

    def look(self) -> None:
        """Gives the run up if it has used its time."""
        if not self.is_over and _has_passed(self.due_s):
            self._give_up()

    def _give_up(self) -> None:
        """A component blocks the flow's thread: lets another thread tear down the rest."""
        execution = self.flow._execution
        runtime = self.flow.plan.runtime
        if execution is None or self._has_given_up:
            # Nothing has been initialised yet, or the teardown has used up its time.
            self._is_left_behind = True
            return
        self._has_given_up = True
        left_s = runtime.teardown_timeout_s * len(execution.runners)
        self.due_s = time.monotonic() + left_s + GRACE_S
        execution.abandonment.give_up()

    def outcome(self) -> Outcome:
        error = self._error
        if not self._is_done or (self._is_shared and self._has_left_thread):
            leave_thread_behind()
        if not self._is_done:
            error = self.flow.error
        state = "completed"
        if self._signals.received:
            is_term = self._signals.received[0] == signal.SIGTERM
            state = "terminated" if is_term else "interrupted"
        elif error is not None:
            state = "unread" if output_was_closed(error) else "failed"
        elif self.flow.state != "completed":
            state = "drained" if self._is_draining else "failed"
        return Outcome(state, self.flow.statistics, error)


def _has_passed(time_s: float | None) -> bool:
    return time_s is not None and time.monotonic() >= time_s
