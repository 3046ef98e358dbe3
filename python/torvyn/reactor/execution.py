"""The execution: one run of a Plan, from its components to the last fact.

It owns the native flow and the runners for the time of the run. When the last turn has run, on
whatever thread, the components are torn down, the facts are taken, and those who wait hear of it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from torvyn._native import ManualClock, NativeFlow
from torvyn.contract import End
from torvyn.contract.inspection import is_instance
from torvyn.contract.request_roles import RequestProcessor
from torvyn.link.plan import Plan
from torvyn.reactor import native_flow, statistics
from torvyn.reactor.error_report import ErrorReport
from torvyn.reactor.failures import exception_of
from torvyn.reactor.lifecycle import Lifecycle
from torvyn.reactor.run_facts import Facts
from torvyn.reactor.run_setup import make_context, make_runners
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import Blocking, OnLoop, Overdue
from torvyn.reactor.stages import run_blocking
from torvyn.reactor.threads.abandonment import Abandonment
from torvyn.reactor.threads.spare_threads import run_elsewhere
from torvyn.reactor.threads.stuck_calls import Stuck, find_stuck, may_block
from torvyn.reactor.threads.time_limits import TimeLimits, deadline_exceeded
from torvyn.sandbox.audit import Audit

if TYPE_CHECKING:
    from torvyn.reactor.runners.stepped_runner import Steps


class Execution:
    def __init__(
        self,
        plan: Plan,
        clock: ManualClock | None = None,
        *,
        limit: int | None = None,
        trace_limit: int = 0,
        is_abandonable: bool = False,
        steps: Steps | None = None,
        request_id: str | None = None,
    ) -> None:
        self.plan = plan
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.is_on_loop = False
        """An event loop drives: the teardown may have to be awaited, so the loop's driver does
        it."""
        self.abandonment = Abandonment(self, is_abandonable)
        self.on_end: Callable[[], None] | None = None
        self.stop_ringing: Callable[[], None] | None = None
        self.runners: list[Runner] = []
        self._clock = clock
        self._steps = steps
        self._limit = limit
        self.facts = Facts(plan, trace_limit)
        self._state = "validated"
        self._is_cancelled = self._is_drained = False
        self._once = threading.Lock()
        self._started: threading.Event | None = None
        """All components are initialised, or will not be; None: nobody waits for that."""
        self._native: NativeFlow | None = None
        self._wiring: native_flow.Wiring = []
        self._created_s = time.monotonic()
        self.limits = TimeLimits(self)
        # In a simulation nothing runs by real time.
        self._blocking = Blocking(self.limits.watched if steps is None else _unwatched)
        self.context = make_context(plan, request_id)
        self._audit = Audit(plan.audit, plan.audit_file, plan.name, self.context.flow_id)

    # Start

    def prepare(self) -> Execution:
        """Makes the components; nothing of theirs has been called yet."""
        try:
            self.runners = make_runners(self.plan, self._audit, self._steps)
        except BaseException as error:
            self._fail_early(error)
            raise
        self.lifecycle = Lifecycle(self.plan, self.runners)
        self.facts.record(self.runners)
        if self._clock is None:
            self.limits.start()
        return self

    def start(self) -> NativeFlow:
        """Initialises the components from this thread and builds the native flow."""
        try:
            run_blocking(self.lifecycle.init(self._blocking))
            return self._begin()
        except BaseException as error:
            run_blocking(self.lifecycle.teardown(self._blocking))
            self._fail_early(error)
            raise

    def start_within_limits(self) -> NativeFlow:
        """The same; a component that blocks in `init` keeps another thread than this one."""
        if any(may_block(runner.component, "init") for runner in self.runners):
            self._started = threading.Event()
            try:
                run_elsewhere(self._start_quietly)
                self._started.wait()
            except BaseException as error:
                # Ctrl-C: nobody will drive what starts there.
                self.abandonment.abandon(error, None)
                raise
        else:
            self.start()
        if self._native is None or self.abandonment.is_abandoned:
            assert self.error is not None
            raise self.error
        return self._native

    def _start_quietly(self) -> None:
        with contextlib.suppress(BaseException):
            self.start()

    async def start_on_loop(self) -> NativeFlow:
        """The same on the running event loop, which drives from now on."""
        self.is_on_loop = True
        try:
            await self.lifecycle.init(OnLoop(self.limits.watched))
            return self._begin()
        except BaseException as error:
            await self.lifecycle.teardown(OnLoop(self.limits.watched))
            self._fail_early(error)
            raise

    def _begin(self) -> NativeFlow:
        if self.abandonment.is_abandoned:
            raise Overdue(0.0)
        self._state = "instantiated"
        native, self._wiring = native_flow.build(
            self.plan,
            self.runners,
            self.context,
            on_error=ErrorReport(self.plan),
            deadline_s=self._deadline_left_s(),
            clock=self._clock,
        )
        # The hook must not keep this alive: an abandoned flow is collected and cancels itself.
        this = weakref.ref(self)

        def over() -> None:
            execution = this()
            if execution is not None:
                execution._on_over()

        native.on_over(over)
        if self._limit is not None:
            native.limit(self._limit)
        self._native = native
        if self._is_drained:
            native.drain()
        if self._is_cancelled:
            native.cancel()
        self.facts.start(native, self._wiring)
        for runner in self.runners:
            runner.work()
        self._tell_started()
        return native

    def _deadline_left_s(self) -> float | None:
        """`init` has used some of it; a clock that is moved by hand has not moved."""
        if self.plan.deadline_s is None or self._clock is not None:
            return self.plan.deadline_s
        return max(self.plan.deadline_s - (time.monotonic() - self._created_s), 0.0)

    def _tell_started(self) -> None:
        if self._started is not None:
            self._started.set()

    def _fail_early(self, error: BaseException) -> None:
        if not self.abandonment.is_abandoned:
            self._state, self.error = "failed", error
            self._conclude()

    # End

    def _on_over(self) -> None:
        """The last turn has run, on this thread."""
        self.facts.over_s = time.monotonic()
        self.limits.stop()
        if self._native is not None and self.error is None:
            raw = self._native.take_failure()
            if raw is not None and raw["kind"] == "deadline-exceeded":
                self.error = deadline_exceeded(self.plan, self.find_stuck())
            elif raw is not None:
                self.error = exception_of(self.plan, self._wiring, raw)
        if not self.is_on_loop:
            self.end_on_this_thread()

    def end_on_this_thread(self) -> None:
        try:
            run_blocking(self.lifecycle.teardown(self._blocking))
        finally:
            # Whatever a component raises from its teardown: those who wait hear of the end.
            self._conclude()

    def _conclude(self) -> None:
        """Takes the last facts and tells those who wait; once, whoever comes first."""
        if not self._once.acquire(blocking=False):
            return
        try:
            self.limits.stop()
            self._audit.close()
            if self._native is not None:
                self._take_facts(self._native)
        finally:
            self._tell_started()
            self.over.set()
            if self.on_end is not None:
                self.on_end()
                self.on_end = None

    def _take_facts(self, native: NativeFlow) -> None:
        abandoned_in = self._state if self.abandonment.is_abandoned else None
        self.facts.conclude(native, abandoned_in)
        if not self._is_iterated:
            native.close()

    @property
    def _is_iterated(self) -> bool:
        """Whether what comes out goes to the caller; the last edge of a flow that runs says so."""
        return not self._wiring[-1][2]

    def leave(self) -> None:
        """The caller goes away: cancel what still runs, and release the components."""
        native = self._native
        if native is None:
            return
        if not self.over.is_set():
            native.cancel()
            native.drive(False, False)
        if self._is_iterated:
            self.facts.count_again(native)
        native.close()
        if self.stop_ringing is not None:
            self.stop_ringing()
            self.stop_ringing = None

    async def leave_loop(self) -> None:
        """The same on the loop that drives."""
        native = self._native
        if native is None:
            return
        if not native.is_over:
            native.cancel()
            native.drive(False, False)
        try:
            await self.lifecycle.teardown(OnLoop(self.limits.watched))
        except BaseException:
            # Cancelled, or dropped with its loop.
            self.lifecycle.abandon()
            raise
        finally:
            self._conclude()
            if self._is_iterated:
                self.facts.count_again(native)
            native.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Fed and then dropped, or its loop went down first: stages elsewhere would wait for ever.
        if self._native is None or self.over.is_set() or is_finalizing():
            return
        if self.is_on_loop:
            self._native.cancel()
            self._native.drive(False, False)
            self.lifecycle.abandon()
            self._conclude()
        self.leave()
        # The flow's own hook finds nobody any more.
        self._on_over()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._native is not None:
            self._native.cancel()

    def drain(self) -> None:
        self._is_drained = True
        for runner in self.runners:
            if is_instance(runner.component, RequestProcessor):
                # Its source has long ended: an engine behind a request would go on for itself.
                runner.component.drain()
        if self._native is not None:
            self._native.drain()

    def raise_failure(self) -> None:
        if self.error is not None:
            raise self.error

    def find_stuck(self) -> Stuck:
        """The call that keeps a thread."""
        native = self._native
        return find_stuck(self.runners, None if native is None else native.current_node)

    def abandon(self, error: BaseException | None, stuck: Runner | None, state: str) -> None:
        """The run is over for those who wait; `stuck` is not called again."""
        self._state, self.error = state, error
        self.cancel()
        self.lifecycle.leave_out(stuck)
        self._tell_started()

    # Facts

    @property
    def is_idle(self) -> bool:
        """Whether every stage that runs elsewhere waits for something from outside."""
        return all(runner.is_idle for runner in self.runners)

    @property
    def native(self) -> NativeFlow | None:
        return self._native

    @property
    def state(self) -> str:
        if self._native is None or self.abandonment.is_abandoned:
            return self._state
        return self._native.state

    @property
    def end(self) -> End | None:
        return self._native.end() if self._native is not None else None

    @property
    def is_final(self) -> bool:
        return self.facts.is_final

    @property
    def statistics(self) -> statistics.Statistics:
        if self._native is None:
            return statistics.nothing_yet(self.plan, self._state)
        return self.facts.counted(self._native)


def _unwatched(runner: Runner, phase: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()
