"""One run of a Plan, from its components to its last statistics.

It owns the native flow and the runners while the flow runs. When the last turn has run, on any
thread, it tears the components down, reads the statistics and notifies those who wait.

A Plan and its runners -> a `NativeFlow`. Native code reads the Plan's attributes itself.

What other threads may do to one run: cancel or drain it, and wait for its start and its end.

Ends a run whose component does not return and so blocks the thread that drives it.

If the thread is the caller's own, the component can only be reported. If it is a worker or the
thread of a command, the run ends without the component: those who wait are notified, and another
thread tears the other components down.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from torvyn._contract.element import Context
from torvyn._contract.enums import ErrorKind, FailureKind, FlowState
from torvyn._contract.inspection import is_instance
from torvyn._contract.roles import RequestProcessor
from torvyn._contract.signals import End
from torvyn._flow import statistics
from torvyn._flow.checks import check_aggregators, check_unread_store
from torvyn._flow.failures import ErrorLog, make_exception, raise_start_failure
from torvyn._flow.lifecycle import Lifecycle, RunSetup, make_context, make_runners, make_successor
from torvyn._flow.lifecycle_driver import (
    BlockingDriver,
    LifecycleDriver,
    LimitExceeded,
    no_limit,
    run_blocking,
)
from torvyn._flow.limits import TimeLimits, deadline_exceeded, end_not_stored
from torvyn._flow.run_statistics import RunStatistics, Wiring
from torvyn._flow.runner import Runner
from torvyn._flow.statistics import empty_statistics
from torvyn._flow.stuck_calls import StuckCall, find_stuck_call, may_block
from torvyn._flow.threads import run_on_spare_thread
from torvyn._io.line_output import line_prefix, lines_with
from torvyn._link.plan import EdgePlan, Plan
from torvyn._native import ManualClock, NativeFlow

if TYPE_CHECKING:
    import asyncio

    from torvyn._durable.durable_run import DurableRun
    from torvyn._flow.refused_elements import RefusedElements
    from torvyn._flow.stepped_runner import StepScheduler
    from torvyn._flow.swap import RunSwaps


class Execution:
    native: NativeFlow | None = None

    def __init__(
        self,
        plan: Plan,
        clock: ManualClock | None = None,
        *,
        limit: int | None = None,
        trace_limit: int = 0,
        is_abandonable: bool = False,
        scheduler: StepScheduler | None = None,
        request_id: str | None = None,
        is_fresh: bool = False,
        discards: Collection[str] = (),
        continued: Collection[str] = (),
    ) -> None:
        self._is_fresh = is_fresh
        self._continued = continued
        self.durable = _durable_run(plan, is_fresh, discards)
        plan = self.plan = plan if self.durable is None else self.durable.plan
        self.error: BaseException | None = None
        self.events = RunEvents()
        self.line_prefix: Final = line_prefix.get()
        """The text before each line that its components print."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that drives the flow. Teardown may need awaiting, so the loop does it."""
        self.driver_thread: int | None = None
        """The thread of the caller that drives the flow."""
        self.abandonment = Abandonment(self, is_abandonable)
        self.cancel_ready_callback: Callable[[], None] | None = None
        self.runners: list[Runner] = []
        self.counts = RunStatistics(plan, trace_limit, self.durable)
        self._clock = clock
        self._control = RunControl(limit)
        self._state = FlowState.VALIDATED
        self._end_state: FlowState | None = None
        """The state of a flow whose end could not be stored."""
        self.wiring: Wiring = []
        self.error_log = ErrorLog(self.plan)
        self.refused = self.counts.refused = _refused_elements(plan, self.durable)
        self.limits = TimeLimits(self, clock)
        # A simulation does not use real time.
        self._driver = BlockingDriver(self.limits.call_limit if scheduler is None else no_limit)
        self.context = make_context(plan, request_id)
        self.setup = RunSetup(self.context.flow_id, scheduler, clock)
        self.contexts: Sequence[Context] | None = None
        """One for each node, where they differ."""

    # Start

    def prepare(self) -> Execution:
        """Makes the components, without calling them."""
        try:
            self.runners = make_runners(self.plan, self.setup)
        except BaseException as error:
            self._fail_early(error)
            raise
        for runner in self.runners:
            if runner.node.name in self._continued:
                make_successor(runner.component)
        self.lifecycle = Lifecycle(self.plan, self.runners)
        self.counts.prepare(self.runners)
        self.limits.start()
        return self

    def start(self) -> NativeFlow:
        """Initializes the components on this thread and builds the native flow."""
        try:
            run_blocking(self._init_components(self._driver))
            return self._build()
        except BaseException as error:
            run_blocking(self._finish_components(self._driver))
            self._fail_early(error)
            raise

    def start_within_limits(self) -> NativeFlow:
        """Like `start`, but a component that blocks in `init` does not block this thread."""
        if any(may_block(runner.component, "init") for runner in self.runners):
            try:
                self.events.wait_for_start(partial(run_on_spare_thread, self._start_quietly))
            except BaseException as error:
                # Ctrl-C: nothing will drive the flow that is being started there.
                self.abandonment.abandon(error, None)
                raise
        else:
            self.start()
        native = self.native
        if native is None or self.abandonment.is_abandoned:
            assert self.error is not None
            raise self.error
        return native

    def _start_quietly(self) -> None:
        with contextlib.suppress(BaseException):
            self.start()

    async def start_on_loop(self) -> NativeFlow:
        """Like `start`, on the running event loop, which then drives the flow."""
        import asyncio

        from torvyn._flow.async_driver import AsyncDriver

        self.loop = asyncio.get_running_loop()
        driver = AsyncDriver(self.limits.call_limit)
        try:
            await self._init_components(driver)
            return self._build()
        except BaseException as error:
            await self._finish_components(driver)
            self._fail_early(error)
            raise

    async def _init_components(self, driver: LifecycleDriver) -> None:
        if (durable := self.durable) is not None:
            durable.choose(self.runners)
            check_aggregators(self.plan, self.runners, durable.saved_nodes)
            opened = partial(durable.open, self.runners)
            await driver.call_apart(opened, durable.cancel_start)
        else:
            check_aggregators(self.plan, self.runners)
        if durable is None or durable.is_remote:
            check_unread_store(self.plan, self._is_fresh)
        await self.lifecycle.init(driver)
        if self.durable is not None:
            self.durable.restore()

    def _build(self) -> NativeFlow:
        if self.abandonment.is_abandoned:
            raise LimitExceeded(0.0)
        self._state = FlowState.INSTANTIATED
        if self.durable is not None:
            self.contexts = self.durable.contexts(self.context)
        if self.refused is not None:
            self.refused.epochs = self.contexts or ()
        native, self.wiring = build(
            self.plan,
            self.runners,
            self.context,
            on_error=self.error_log,
            deadline_s=self.limits.deadline_left_s(),
            clock=self._clock,
            checkpoints=None if self.durable is None else self.durable.native_options(),
            contexts=self.contexts,
            store_refused=self.refused,
        )
        # A strong reference would keep this alive: a dropped flow must be collected and cancelled.
        native.set_end_callback(partial(_end_run, weakref.ref(self)))
        self.native = native
        self._control.attach(native)
        self.counts.start(native, self.wiring)
        for runner in self.runners:
            runner.start()
        if self.durable is not None:
            self.durable.start(native)
        self.events.set_started()
        return native

    def _fail_early(self, error: BaseException) -> None:
        if not self.abandonment.is_abandoned:
            is_cancelled = self.durable is not None and self.durable.is_start_cancelled
            self._state = FlowState.CANCELLED if is_cancelled else FlowState.FAILED
            self.error = error
            self._end()

    # End

    def on_last_turn(self) -> None:
        """The last turn has run, on this thread."""
        self.counts.ended_s = time.monotonic()
        self.limits.stop()
        native = self.native
        if native is not None and self.error is None:
            raw = native.take_failure()
            if raw is not None and raw["kind"] is FailureKind.DEADLINE_EXCEEDED:
                self.error = deadline_exceeded(self.plan, self.find_stuck_call())
            elif raw is not None:
                self.error = make_exception(self.plan, self.wiring, raw)
        if not self.is_on_loop:
            self.end_on_this_thread()

    def end_on_this_thread(self) -> None:
        try:
            with lines_with(self.line_prefix):
                run_blocking(self._finish_components(self._driver))
        finally:
            # Those who wait are notified even if a teardown raises.
            self._end()

    async def _finish_components(self, driver: LifecycleDriver) -> None:
        if (durable := self.durable) is not None:
            is_completed, limit_s = self.state is FlowState.COMPLETED, self.limits.deadline_left_s()
            finished = partial(durable.finish, is_completed, limit_s)
            try:
                if durable.is_remote:
                    await driver.call_apart(finished, durable.cancel)
                else:
                    finished()
            finally:
                self.error = durable.failure or self.error
                self._note_unstored_end(durable)
        if self.native is not None and not self.abandonment.is_abandoned:
            await self.lifecycle.acknowledge(self.native, driver)
        if "swaps" in vars(self):
            await self.swaps.finish(driver)
        await self.lifecycle.teardown(driver)
        if self.durable is not None:
            self.durable.close_letters()

    def _note_unstored_end(self, durable: DurableRun) -> None:
        """A flow whose end is not stored has not completed: those behind it still wait."""
        if durable.unstored is not None and durable.is_cancelled:
            self._end_state = FlowState.CANCELLED
        elif durable.unstored is not None:
            self.error = end_not_stored(self.plan, durable.unstored)
        if self.error is not None and self.state is FlowState.COMPLETED:
            self._end_state = FlowState.FAILED

    def _end(self) -> None:
        """Reads the last statistics and notifies those who wait; only the first call does it."""
        if not self.events.begin_end():
            return
        try:
            self.limits.stop()
            self.setup.close()
            if self.native is not None:
                state = self._state if self.abandonment.is_abandoned else self._end_state
                self.counts.finish(self.native, state)
                if not self.counts.is_iterated:
                    self.native.close()
        finally:
            self.events.set_over()

    def close(self) -> None:
        """Cancels a flow that still runs, and releases the components."""
        native = self.native
        if native is None:
            return
        if not self.events.over.is_set():
            cancel_on_this_thread(native)
        self.counts.refresh(native)
        native.close()
        if self.cancel_ready_callback is not None:
            self.cancel_ready_callback()
            self.cancel_ready_callback = None

    async def aclose(self) -> None:
        """Like `close`, on the loop that drives."""
        from torvyn._flow.async_driver import AsyncDriver

        native = self.native
        if native is None:
            return
        if not native.is_over:
            cancel_on_this_thread(native)
        try:
            await self._finish_components(AsyncDriver(self.limits.call_limit))
        except BaseException:
            # The task was cancelled, or dropped with its loop.
            self.lifecycle.abandon()
            raise
        finally:
            self._end()
            self.counts.refresh(native)
            native.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A flow that was fed and dropped, or whose loop has ended: its offloaded stages would wait
        # forever.
        native = self.native
        if native is None or self.events.over.is_set() or is_finalizing():
            return
        if self.is_on_loop:
            cancel_on_this_thread(native)
            self.lifecycle.abandon()
            self._end()
        self.close()
        # The native flow's own callback has only a weak reference, which is dead by now.
        self.on_last_turn()

    def cancel(self) -> None:
        if self.durable is not None:
            self.durable.cancel()
        self._control.cancel()

    def drain(self) -> None:
        for runner in self.runners:
            if is_instance(runner.component, RequestProcessor):
                # Its input has ended long ago, so draining the sources would not stop an engine.
                runner.component.drain()
        if self.durable is not None and self.native is not None:
            # A drain would end the streams and flush what a new run must continue.
            self.durable.drain(self._control.cancel)
        else:
            if self.durable is not None:
                self.durable.cancel_start()
            self._control.drain()

    def raise_failure(self) -> None:
        if self.error is not None:
            raise self.error

    def find_stuck_call(self) -> StuckCall:
        """The call that blocks a thread."""
        native = self.native
        return find_stuck_call(self.runners, None if native is None else native.current_node)

    def abandon(self, error: BaseException | None, stuck: Runner | None, state: FlowState) -> None:
        """Ends the run for those who wait; `stuck` is not called again."""
        self._state, self.error = state, error
        self.cancel()
        self.lifecycle.exclude(stuck)
        self.events.set_started()

    # State

    @property
    def is_on_loop(self) -> bool:
        return self.loop is not None

    @cached_property
    def swaps(self) -> RunSwaps:
        """The swaps of components while the flow runs."""
        from torvyn._flow.swap import RunSwaps as NewRunSwaps

        return NewRunSwaps(self)

    @property
    def is_idle(self) -> bool:
        """Whether every offloaded stage waits for something from outside, and everything that was
        handed over is durable."""
        is_stored = self.durable is None or self.durable.is_idle
        return is_stored and all(runner.is_idle for runner in self.runners)

    @property
    def state(self) -> FlowState:
        native = self.native
        if native is None or self.abandonment.is_abandoned:
            return self._state
        return self._end_state or native.state

    @property
    def end(self) -> End | None:
        if self._end_state is FlowState.CANCELLED:
            return End("cancelled")
        return self.native.end() if self.native is not None else None

    @property
    def statistics(self) -> statistics.Statistics:
        if self.native is None:
            return empty_statistics(self.plan, self._state)
        return self.counts.current(self.native)


def _durable_run(plan: Plan, is_fresh: bool, discards: Collection[str]) -> DurableRun | None:
    """What makes the run survive its process; SQLite is imported only for flows that need it."""
    if plan.checkpoint_s is None:
        return None
    if plan.cluster is not None and plan.cluster.nats:
        from torvyn._durable.nats.startup import NatsRun

        return NatsRun(plan, is_fresh, discards)
    from torvyn._durable.durable_run import DurableRun as NewDurableRun

    return NewDurableRun(plan, is_fresh, discards)


def _refused_elements(plan: Plan, durable: DurableRun | None) -> RefusedElements | None:
    if durable is None:
        return None
    from torvyn._flow.refused_elements import RefusedElements as NewRefusedElements

    return NewRefusedElements(plan, durable.letters)


def _end_run(reference: weakref.ref[Execution]) -> None:
    execution = reference()
    if execution is not None:
        execution.on_last_turn()


CALLER = ""
"""The name of the caller as an end of an edge."""

OnError = Callable[[int, ErrorKind, str, int, BaseException | None, int | None], None]

StoreRefused = Callable[[int, ErrorKind, str, BaseException | None, int | None, bytes | None], bool]


def build(
    plan: Plan,
    runners: Sequence[Runner],
    context: Context,
    *,
    on_error: OnError,
    deadline_s: float | None,
    clock: ManualClock | None,
    checkpoints: tuple[list[int], list[bool], Callable[..., None]] | None = None,
    contexts: Sequence[Context] | None = None,
    store_refused: StoreRefused | None = None,
) -> tuple[NativeFlow, Wiring]:
    """The native flow, ready for its first turn, and the names of its edges. `contexts`: one for
    each node, where they differ."""
    own = contexts or [context] * len(runners)
    edges = [*plan.edges, *_caller_edges(plan)]
    native = NativeFlow(
        plan,
        edges,
        [_work(plan, runner, each) for runner, each in zip(runners, own, strict=True)],
        context,
        on_error=on_error,
        deadline_ns=None if deadline_s is None else int(deadline_s * 1e9),
        clock=clock,
        checkpoints=checkpoints,
        contexts=None if contexts is None else list(contexts),
        store_refused=store_refused,
    )
    for index, runner in enumerate(runners):
        runner.attach(native.node(index))
    return native, [(edge.source, edge.port, edge.target) for edge in edges]


def _work(plan: Plan, runner: Runner, context: Context) -> Any:
    try:
        return runner.native_work(context)
    except BaseException as error:
        raise_start_failure(plan, runner.node, error)


def _caller_edges(plan: Plan) -> list[EdgePlan]:
    """The edges from and to the caller, where a flow has no source or no sink."""
    edges = []
    if (head := plan.head) is not None:
        edges.append(_caller_edge(CALLER, "output", head))
    if (tail := plan.tail) is not None:
        edges.append(_caller_edge(tail, plan.node(tail).ports[0], CALLER))
    return edges


@lru_cache
def _caller_edge(source: str, port: str, target: str) -> EdgePlan:
    """Cached: every new flow needs one or two, and a frozen dataclass is slow to create."""
    return EdgePlan(source, port, target)


class RunControl:
    """Cancels and drains a run, also before its native flow exists."""

    def __init__(self, limit: int | None) -> None:
        self._native: NativeFlow | None = None
        self._limit = limit
        self._is_cancelled = self._is_drained = False

    def attach(self, native: NativeFlow) -> None:
        if self._limit is not None:
            native.limit(self._limit)
        self._native = native
        if self._is_drained:
            native.drain()
        if self._is_cancelled:
            native.cancel()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._native is not None:
            self._native.cancel()

    def drain(self) -> None:
        self._is_drained = True
        if self._native is not None:
            self._native.drain()


class RunEvents:
    """Notifies those who wait for the start or the end of a run."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.on_end: Callable[[], None] | None = None
        self._started: threading.Event | None = None
        self._end_lock = threading.Lock()

    def wait_for_start(self, start: Callable[[], None]) -> None:
        """Calls `start`, then waits until all components are initialized or the run has failed."""
        self._started = threading.Event()
        start()
        self._started.wait()

    def set_started(self) -> None:
        if self._started is not None:
            self._started.set()

    def begin_end(self) -> bool:
        """True for the first caller only, which then ends the run."""
        return self._end_lock.acquire(blocking=False)

    def set_over(self) -> None:
        self.set_started()
        self.over.set()
        if self.on_end is not None:
            self.on_end()
            self.on_end = None


def cancel_on_this_thread(native: NativeFlow) -> None:
    """Cancels the flow and runs its last turn."""
    native.cancel()
    native.drive(False, False)


logger = logging.getLogger("torvyn.reactor")


class Abandonment:
    def __init__(self, execution: Execution, is_possible: bool) -> None:
        self.is_possible = is_possible
        """Whether the thread that drives is not the caller's."""
        self.is_abandoned = False
        self.has_left_thread = False
        """Another thread has replaced one that a component blocks."""
        self._execution = weakref.ref(execution)

    def abandon(
        self, error: BaseException | None, stuck: Runner | None, state: FlowState = FlowState.FAILED
    ) -> None:
        """Ends the run, in `state`, and notifies those who wait."""
        execution = self._execution()
        if execution is None or self.is_abandoned or execution.events.over.is_set():
            return
        self.is_abandoned = True
        execution.abandon(error, stuck, state)
        self.end_on_new_thread()

    def end_on_new_thread(self) -> None:
        """Tears the other components down on a new thread."""
        execution = self._execution()
        if execution is not None:
            self.has_left_thread = True
            end = execution.end_on_this_thread
            threading.Thread(target=end, name="torvyn-teardown", daemon=True).start()

    def give_up(self) -> None:
        """Stops waiting for the component that blocks the run."""
        execution = self._execution()
        if execution is None or execution.events.over.is_set():
            return
        stuck = execution.find_stuck_call()
        logger.warning(
            "%s did not return and was abandoned%s",
            stuck.description,
            f":\n{stuck.stack}" if stuck.stack else "",
            extra={"event": "node.abandoned"},
        )
        if execution.counts.ended_s is None:
            self.abandon(None, stuck.runner, FlowState.CANCELLED)
        else:
            self.end_on_new_thread()
