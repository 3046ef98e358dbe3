"""Runs the flows of a command: on separate threads, while the main thread handles signals.

The first Ctrl-C (or SIGTERM) drains all flows: the sources stop, and the elements in the flows
still reach the sinks, within `drain_timeout`. The second cancels them, the third ends the process.
A component that does not return is reported with its stack, and its thread is abandoned.

A flow that is alone runs on its thread. Several share the workers, by their priorities, and their
threads wait for them.

systemd is told how the flows of a process do: ready, working, stopping. The watchdog is fed while
every flow is healthy (`health` of a flow), not while the process is alive: a process that collects
nothing is restarted. An idle source is healthy, and so is a component that reports a lost
connection, because a restart does not bring the network back.
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

from torvyn._cli.exit import leave_thread_behind, output_was_closed
from torvyn._cli.screen import end_output
from torvyn._io.line_output import line_prefix
from torvyn._io.process import shorten_switch_interval
from torvyn._io.supervision import is_notified, notify, watchdog_interval_s
from torvyn.errors import Internal

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._flow.health import FlowHealth, HealthCheck
    from torvyn._flow.statistics import Statistics
    from torvyn._io.process import SignalWaiter
    from torvyn._link.plan import Plan


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


_STALL_S: Final = 60.0
"""Without a watchdog, for `torvyn top`."""


class Supervisor:
    """The threads that run the flows call `started`; the one that waits for their ends calls the
    other methods."""

    def __init__(self, expected: int = 1) -> None:
        """`expected`: how many flows the process runs."""
        self.due_s: float | None = None
        """When to call `tick`, as a time of `time.monotonic`."""
        self._lock = threading.Lock()
        self._running: dict[Flow, HealthCheck] = {}
        self._awaited = expected
        self._is_ready = self._is_stopping = False
        self._interval_s = watchdog_interval_s()
        self._failed: set[Flow] = set()

    def started(self, flow: Flow, check: HealthCheck) -> None:
        """All components of the flow are initialized."""
        with self._lock:
            self._running[flow] = check
            self._awaited -= 1
            self._report_ready()

    def ended(self, flow: Flow) -> None:
        """The flow has ended, or could not start."""
        with self._lock:
            if self._running.pop(flow, None) is None:
                self._awaited -= 1
            self._report_ready()

    def _report_ready(self) -> None:
        """Once all flows run, or have failed to."""
        if self._awaited > 0 or self._is_ready or not self._running or self._is_stopping:
            return
        self._is_ready = True
        notify("READY=1", f"STATUS=running {self._names()}")
        if self._interval_s is not None:
            self.due_s = time.monotonic() + self._interval_s

    def _names(self) -> str:
        names = sorted(flow.name for flow in self._running)
        return f"flow {names[0]}" if len(names) == 1 else f"{len(names)} flows"

    def tick(self) -> None:
        """Feeds the watchdog, or lets it end the process if a flow does not work."""
        assert self._interval_s is not None
        self.due_s = time.monotonic() + self._interval_s
        with self._lock:
            running = dict(self._running)
        found = [(flow, flow.statistics, check) for flow, check in running.items()]
        healths = [(flow, check.check(statistics)) for flow, statistics, check in found]
        sick = [(flow, health) for flow, health in healths if not health.is_healthy]
        if healths and not sick:
            produced = sum(statistics.produced for _, statistics, _ in found)
            emitted = sum(statistics.emitted for _, statistics, _ in found)
            state = ", ".join(dict.fromkeys(health.state for _, health in healths))
            what = state if len(found) == 1 else f"{len(found)} flows, {state}"
            reasons = "".join(f", {health.reason}" for _, health in healths if health.reason)
            notify("WATCHDOG=1", f"STATUS={what}: {produced} produced, {emitted} emitted{reasons}")
        for flow, health in sick:
            if flow not in self._failed:
                self._failed.add(flow)
                self._report(flow, health)
        if sick:
            # Last, because systemd may end the process at once.
            health = sick[0][1]
            notify("WATCHDOG=trigger", f"STATUS={health.state}: {health.reason}")

    def stopping(self) -> None:
        with self._lock:
            self.due_s, self._is_stopping = None, True
            notify("STOPPING=1", f"STATUS=draining {self._names()}")

    def _report(self, flow: Flow, health: FlowHealth) -> None:
        execution = flow._execution
        stuck = None if execution is None else execution.find_stuck_call()
        stack = "" if stuck is None or not stuck.stack else f"; {stuck.description}:\n{stuck.stack}"
        logger.error(
            "flow `%s` is %s: %s; the watchdog of systemd ends the process%s",
            flow.name,
            health.state,
            health.reason,
            stack,
            extra={"event": f"flow.{health.state}", "flow": flow.name, "node": health.node},
        )


def make_health_check(plan: Plan) -> HealthCheck:
    """A flow has stalled when it stands still for as long as the watchdog waits."""
    from torvyn._flow.health import HealthCheck

    interval_s = watchdog_interval_s()
    stall_s = _STALL_S if interval_s is None else 2 * interval_s
    return HealthCheck(stall_s, plan.runtime.max_silence_s)


def make_supervisor(expected: int = 1) -> Supervisor | None:
    """The supervisor of a process that systemd has started; None if it has not."""
    return Supervisor(expected) if is_notified() else None
