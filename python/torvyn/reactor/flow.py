"""The flow as a program uses it: build it, run it, iterate over it, feed it, read its statistics.

A flow runs once. Iterating drives it on your own thread, and leaving the loop cancels it. Feed a
flow without a source, iterate over one without a sink, run or start one with both.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from torvyn._contract.element import Element
from torvyn._contract.enums import FlowState
from torvyn._contract.functions import Stage
from torvyn._contract.options import Backpressure, OnError, Priority
from torvyn._contract.signals import End
from torvyn._io.line_output import write_as, writer_key
from torvyn._link.plan import Plan
from torvyn._manifest.records import FlowRecord
from torvyn.errors import FlowError
from torvyn.reactor.flow_swap import SwappableFlow
from torvyn.reactor.native_statistics import empty_statistics
from torvyn.reactor.statistics import Statistics

if TYPE_CHECKING:
    from torvyn._native import ManualClock, NativeFlow
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.run.run_statistics import Call
    from torvyn.reactor.runners.stepped_runner import StepScheduler


class Flow(SwappableFlow):
    """A flow of components.

        flow = torvyn.Flow(["a", "b"], torvyn.filter(lambda e: e.text != "a"))
        for element in flow: ...

    Positional stages form a chain: components, names of built-in ones, functions of an element, and
    iterables as sources. For branches use `add` and `connect`.
    """

    def __init__(
        self,
        *stages: Stage,
        name: str = "main",
        priority: Priority | None = None,
        deadline_s: float | None = None,
        checkpoint_s: float | None = None,
        max_memory_bytes: int | None = None,
        cpu_share: float | None = None,
        queue_depth: int | None = None,
        queue_bytes: int | None = None,
        backpressure: Backpressure | None = None,
        on_error: OnError | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self._execution: Execution | None = None
        self._lock = threading.Lock()
        self._clock = clock
        self._limit: int | None = None
        self._trace_limit = 0
        self.is_fresh = False
        """Whether the run discards what earlier runs have saved. Set it before the run."""
        self.discarded_states: Collection[str] = ()
        """The nodes whose saved states the run discards."""
        self.continued_nodes: Collection[str] = ()
        """The nodes that have run before, in a flow that this one continues."""
        self._is_cancelled = False
        self.request_id: str | None = None
        """The request that the flow works for, as in `Element.context`. Set it before the run."""
        record = FlowRecord(
            name,
            priority=priority,
            deadline_s=deadline_s,
            checkpoint_s=checkpoint_s,
            max_memory_bytes=max_memory_bytes,
            cpu_share=cpu_share,
            queue_depth=queue_depth,
            queue_bytes=queue_bytes,
            backpressure=backpressure,
            on_error=on_error,
        )
        super().__init__(record, stages)

    @classmethod
    def from_plan(cls, plan: Plan, *, clock: ManualClock | None = None) -> Flow:
        flow = cls(name=plan.name, clock=clock)
        flow._plan = plan
        return flow

    def limit(self, elements: int) -> Flow:
        """Drains the flow after its sources have sent this many elements; 0 pulls nothing."""
        self._limit = elements
        return self

    def trace(self, limit: int = 1_000_000) -> Flow:
        """Records up to `limit` calls, which `take_trace` returns. Slows the flow down."""
        self._trace_limit = limit
        return self

    # Run

    def run(self) -> Statistics:
        """Runs the flow to its end on this thread; raises its failure."""
        return self._run()

    def _run(
        self,
        *,
        is_abandonable: bool = False,
        is_shared: bool = False,
        on_start: Callable[[], None] | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> Statistics:
        """`is_shared`: the workers run the flow, beside others, while this thread waits."""
        self._must_be_closed("run")
        execution = self._execute(is_abandonable=is_abandonable)
        execution.events.on_end = on_end
        native = execution.start()
        if not is_shared:
            execution.driver_thread = threading.get_ident()
        if on_start is not None:
            on_start()
        try:
            if is_shared:
                self._hand_over(execution, native)
                execution.events.over.wait()
            else:
                native.drive()
        finally:
            execution.close()
        execution.raise_failure()
        return execution.statistics

    async def run_async(self) -> Statistics:
        """Like `run`, on the running event loop; other tasks run between the turns."""
        from torvyn._io.other_loops import require_asyncio
        from torvyn.reactor.loop_driver import drive_on_loop

        require_asyncio("`run_async`")
        self._must_be_closed("run")
        execution = self._execute()
        async for _ in drive_on_loop(execution):
            pass
        return execution.statistics

    def start(self) -> Flow:
        """Runs the flow on the worker threads, and returns at once."""
        self._must_be_closed("start")
        execution = self._execute(is_abandonable=True)
        self._hand_over(execution, execution.start_within_limits())
        return self

    def _hand_over(self, execution: Execution, native: NativeFlow) -> None:
        """From now on the workers run the flow."""
        from torvyn.reactor.threads.workers import keep_flow, release_flow, workers

        pool = workers(self.plan.runtime.worker_threads)
        keep_flow(native.key, self, execution.plan)
        execution.events.on_end = partial(release_flow, native.key)
        if execution.line_prefix:
            native.set_turn_callback(partial(write_as, writer_key(), execution.line_prefix))
        native.start(pool)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of a started flow; raises its failure. False if the time runs out."""
        execution = self._execution
        if execution is None:
            if self._is_cancelled:
                return True
            raise FlowError(
                "reactor.not-started",
                f"flow `{self.name}` has not been started: there is nothing to wait for",
                hint="call flow.start() first",
            )
        if not execution.events.over.wait(timeout_s):
            return False
        execution.raise_failure()
        return True

    def __iter__(self) -> Iterator[Element]:
        return self._iterate(text=False)

    def text(self) -> Iterator[str]:
        """Iterates over the texts of the outputs."""
        return self._iterate(text=True)

    def _iterate(self, text: bool) -> Iterator[Any]:
        self._must_be_open()
        execution = self._execute()
        native = execution.start()
        execution.driver_thread = threading.get_ident()
        outputs = native.iterate(execution.raise_failure, text)
        try:
            yield from outputs
        except FlowError as error:
            # The frames of this package tell nothing about a component's mistake.
            raise error.with_traceback(None)  # noqa: B904, it keeps its cause
        finally:
            outputs.close()
            del outputs
            execution.close()

    def __aiter__(self) -> AsyncIterator[Element]:
        from torvyn.reactor.loop_driver import AsyncFlowIterator

        self._must_be_open()
        return AsyncFlowIterator(self._execute)

    # End

    def cancel(self) -> None:
        """Ends the flow at once; counts the elements inside as unread. Thread-safe."""
        self._is_cancelled = True
        if self._execution is not None:
            self._execution.cancel()
            self._cancel_feed(self._execution)

    def drain(self) -> None:
        """Stops the sources; elements inside still reach the sinks. Thread-safe."""
        if self._execution is not None:
            self._execution.drain()

    def interrupt(self) -> None:
        """Drops the elements inside, except those marked to be kept; the flow goes on."""
        if self._execution is not None and self._execution.native is not None:
            self._execution.native.interrupt()

    # State

    @property
    def state(self) -> FlowState:
        """created, validated, instantiated, running, draining, completed, cancelled or failed."""
        if self._execution is not None:
            return self._execution.state
        if self._is_cancelled:
            return FlowState.CANCELLED
        return FlowState.CREATED if self._plan is None else FlowState.VALIDATED

    @property
    def statistics(self) -> Statistics:
        if self._execution is not None:
            return self._execution.statistics
        return empty_statistics(self.plan, self.state)

    @property
    def end(self) -> End | None:
        """How the stream ended; None before its end."""
        if self._execution is not None:
            return self._execution.end
        return End("cancelled") if self._is_cancelled else None

    @property
    def error(self) -> BaseException | None:
        """The failure of the flow."""
        return self._execution.error if self._execution is not None else None

    def memory(self) -> dict[str, int]:
        """The memory of the flow in the reactor, in bytes: its state, and what its elements wait
        in. Payloads and components are not part of it."""
        native = self._execution.native if self._execution is not None else None
        state, queues = native.memory() if native is not None else (0, 0)
        return {"state_bytes": state, "queue_bytes": queues}

    def take_trace(self) -> tuple[list[Call], int]:
        """The recorded calls in order, and how many exceeded the limit."""
        return self._execution.counts.trace if self._execution is not None else ([], 0)

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}: {self.state}>"

    # Once

    def _execute(
        self, *, is_abandonable: bool = False, scheduler: StepScheduler | None = None
    ) -> Execution:
        """Creates the only execution of this flow."""
        from torvyn.reactor.run.execution import Execution as NewExecution

        plan = self.plan
        with self._lock:
            self._must_be_new()
            execution = NewExecution(
                plan,
                self._clock,
                limit=self._limit,
                trace_limit=self._trace_limit,
                is_abandonable=is_abandonable,
                scheduler=scheduler,
                request_id=self.request_id,
                is_fresh=self.is_fresh,
                discards=self.discarded_states,
                continued=self.continued_nodes,
            )
            self._execution = execution
        return execution.prepare()

    def _must_be_new(self) -> None:
        if self._execution is not None or self._is_cancelled:
            self._raise_already_ran()
