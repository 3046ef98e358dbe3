"""The flow in a program: build it, run it, iterate it, feed it, ask it.

A flow runs once. Whoever iterates it drives it on their own thread; leaving the loop cancels the
sources. A flow without a source is fed, one without a sink is iterated, one with both is run or
started.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from torvyn.contract import Backpressure, ComponentLike, Element, Emission, End, OnError, Priority
from torvyn.errors import FlowError
from torvyn.link.plan import Plan
from torvyn.manifest import FlowRecord
from torvyn.reactor.failures import busy, refused
from torvyn.reactor.flow_builder import FlowBuilder
from torvyn.reactor.statistics import Statistics, nothing_yet

if TYPE_CHECKING:
    from torvyn._native import ManualClock, NativeFlow
    from torvyn.reactor.execution import Execution
    from torvyn.reactor.run_facts import Call
    from torvyn.reactor.runners.stepped_runner import Steps

# A list of str is not a `list[Emission]`: lists are invariant.
EmissionT = TypeVar("EmissionT", bound=Emission)


class Flow(FlowBuilder):
    """A flow of components.

        flow = torvyn.Flow(["a", "b"], torvyn.filter(lambda e: e.text != "a"))
        for element in flow: ...

    The positional stages are joined in a chain. For branches use `add` and `connect`.
    """

    def __init__(
        self,
        *stages: ComponentLike,
        name: str = "main",
        priority: Priority | None = None,
        deadline_s: float | None = None,
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
        self._is_cancelled = False
        self._is_fed = False
        self.request_id: str | None = None
        """Of the request that it works for; `Element.context` has it. Set before the flow runs."""
        record = FlowRecord(
            name,
            priority=priority,
            deadline_s=deadline_s,
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
        """Drains by itself after so many elements of the sources; with 0 nothing is pulled."""
        self._limit = elements
        return self

    def trace(self, limit: int = 1_000_000) -> Flow:
        """Records every call, up to `limit`; `take_trace` gives them.

        Slows the flow: for looking, not for running.
        """
        self._trace_limit = limit
        return self

    # Driving

    def run(self) -> Statistics:
        """Runs the flow to its end on this thread; raises what made it fail."""
        return self._run()

    def _run(
        self, *, is_abandonable: bool = False, on_end: Callable[[], None] | None = None
    ) -> Statistics:
        self._must_be_closed("run")
        execution = self._execute(is_abandonable=is_abandonable)
        execution.on_end = on_end
        native = execution.start()
        try:
            native.drive()
        finally:
            execution.leave()
        execution.raise_failure()
        return execution.statistics

    async def run_async(self) -> Statistics:
        """`run` on the running event loop, which stays free for others between turns."""
        from torvyn.concurrency.require_asyncio import require_asyncio
        from torvyn.reactor.loop_driver import outputs_on_loop

        require_asyncio("`run_async`")
        self._must_be_closed("run")
        execution = self._execute()
        async for _ in outputs_on_loop(execution):
            pass
        return execution.statistics

    def start(self) -> Flow:
        """Hands the flow to the worker threads, which keep it until it is over, and returns."""
        from torvyn.reactor.threads.workers import unwatch, watch, workers

        self._must_be_closed("start")
        pool = workers(self.plan.runtime.worker_threads)
        execution = self._execute(is_abandonable=True)
        native = execution.start_within_limits()
        watch(native.key, self)
        execution.on_end = partial(unwatch, native.key)
        native.start(pool)
        return self

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for a started flow; raises what made it fail. False when the time is over."""
        execution = self._execution
        if execution is None:
            if self._is_cancelled:
                return True
            self._raise_not_started("wait for")
        if not execution.over.wait(timeout_s):
            return False
        execution.raise_failure()
        return True

    def __iter__(self) -> Iterator[Element]:
        return self._iterate(text=False)

    def text(self) -> Iterator[str]:
        """The texts of what leaves the flow."""
        return self._iterate(text=True)

    def _iterate(self, text: bool) -> Iterator[Any]:
        self._must_be_open("iterate")
        execution = self._execute()
        native = execution.start()
        outputs = native.iterate(execution.raise_failure, text)
        try:
            yield from outputs
        finally:
            outputs.close()
            del outputs
            execution.leave()

    def __aiter__(self) -> AsyncIterator[Element]:
        from torvyn.reactor.loop_driver import LoopDriver

        self._must_be_open("iterate")
        return LoopDriver(self._execute)

    # Feeding

    @overload
    def feed(self, items: Emission | list[Emission]) -> list[Element]: ...
    @overload
    def feed(self, items: list[EmissionT]) -> list[Element]: ...
    def feed(self, items: Any) -> list[Element]:
        """Puts one item or a list of them in, and gives what is ready at the other end.

        With an async or thread stage in the flow more may follow: `on_ready` tells, `ready` gives.
        """
        execution, native = self._fed()
        if execution.over.is_set():
            execution.raise_failure()
            self._raise_already_ran()
        batch = items if isinstance(items, list) else [items]
        try:
            out, taken = native.feed(batch)
        except ValueError as error:
            raise refused(batch, str(error), self.statistics) from None
        except RuntimeError:
            raise busy(self.plan) from None
        return self._came(execution, native, batch, out, taken)

    def feed_text(self, text: str) -> str | list[Element]:
        """`feed` of one text. What leaves is given joined when it is text, without attributes, and
        the flow goes on: no `Element` is made for it."""
        execution = self._execution
        native = None if execution is None else execution.native
        if execution is None or native is None:
            return self.feed(text)
        try:
            made = native.feed_text(text)
        except ValueError as error:
            raise refused([text], str(error), self.statistics) from None
        except RuntimeError:
            raise busy(self.plan) from None
        if isinstance(made, str):
            return made
        if native.is_over and not made[1]:
            return self.feed(text)  # which says why it cannot
        return self._came(execution, native, [text], *made)

    def _came(
        self,
        execution: Execution,
        native: NativeFlow,
        batch: list[Any],
        out: list[Element],
        taken: int,
    ) -> list[Element]:
        if native.is_over:
            # It may have ended half-way, by a verdict or a cancel: what came after is not wanted.
            return self._settle(execution, native, out)
        if taken < len(batch):
            full = FlowError(
                "reactor.feed-full",
                f"the flow took {taken} of {len(batch)} items: a stage behind does not keep up",
                hint="wait for `on_ready`, take what is `ready`, then feed the rest",
            )
            full.taken, full.ready = taken, out
            raise full
        return out

    def finish(self, end: End | None = None) -> list[Element]:
        """Says that no more will be fed; gives what was still inside and is ready."""
        execution, native = self._fed()
        try:
            out = native.finish_feed(end)
        except RuntimeError:
            raise busy(self.plan) from None
        return self._settle(execution, native, out)

    def ready(self) -> list[Element]:
        """What has become ready since the last call. For flows that are fed."""
        execution, native = self._fed()
        out = native.outputs()
        try:
            # Until it parks: a wake-up that came while it ran is answered by running on.
            while not execution.is_final and native.drive(False, False) != "parked":
                out += native.outputs()
        except RuntimeError:
            raise busy(self.plan) from None
        return self._settle(execution, native, out)

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when a stage away from this thread has made progress.

        On the running event loop if there is one, else on a thread of torvyn's.
        """
        from torvyn.reactor.loop_driver import call_when_ready

        execution, native = self._fed()
        if execution.stop_ringing is not None:
            execution.stop_ringing()
        execution.stop_ringing = call_when_ready(native, callback)

    def _fed(self) -> tuple[Execution, NativeFlow]:
        execution = self._execution
        if execution is None:
            self._must_be_fed()
            execution = self._execute()
            self._is_fed = True
            started = execution.start()
            if any(node.run != "inline" for node in self.plan.nodes):
                # Else nobody ever waits for it, and a signal costs two file descriptors.
                started.attend()
        native = execution.native
        if native is None:
            self._raise_already_ran()
        return execution, native

    def _settle(
        self, execution: Execution, native: NativeFlow, out: list[Element]
    ) -> list[Element]:
        out += native.outputs()
        if execution.over.is_set():
            execution.leave()
            if isinstance(execution.error, FlowError):
                # What left the flow before it failed is not lost with it.
                execution.error.ready = out
            execution.raise_failure()
        return out

    # Ending

    def cancel(self) -> None:
        """Ends the flow at once; what is inside is discarded and counted. From any thread."""
        self._is_cancelled = True
        if self._execution is not None:
            self._execution.cancel()
            if self._is_fed:
                self._end_fed(self._execution)

    def _end_fed(self, execution: Execution) -> None:
        """Nobody else would run the turn that ends it. Busy: somebody is inside `feed`, and that
        call ends it."""
        with contextlib.suppress(RuntimeError):
            execution.leave()

    def drain(self) -> None:
        """Stops the sources; what is inside still reaches the sinks. From any thread."""
        if self._execution is not None:
            self._execution.drain()

    def interrupt(self) -> None:
        """Drops what waits in the flow, except elements marked to be kept; the flow goes on."""
        if self._execution is not None and self._execution.native is not None:
            self._execution.native.interrupt()

    # Asking

    @property
    def state(self) -> str:
        """created, validated, instantiated, running, draining, completed, cancelled or failed."""
        if self._execution is not None:
            return self._execution.state
        if self._is_cancelled:
            return "cancelled"
        return "created" if self._plan is None else "validated"

    @property
    def statistics(self) -> Statistics:
        if self._execution is not None:
            return self._execution.statistics
        return nothing_yet(self.plan, self.state)

    @property
    def end(self) -> End | None:
        """How the stream ended; None while it has not."""
        if self._execution is not None:
            return self._execution.end
        return End("cancelled") if self._is_cancelled else None

    @property
    def error(self) -> BaseException | None:
        """What made the flow fail."""
        return self._execution.error if self._execution is not None else None

    def memory(self) -> dict[str, int]:
        """Bytes the reactor keeps for this flow: its state, and the slots of its queues."""
        native = self._execution.native if self._execution is not None else None
        state, queues = native.memory() if native is not None else (0, 0)
        return {"state_bytes": state, "queue_bytes": queues}

    def take_trace(self) -> tuple[list[Call], int]:
        """The calls recorded, in order, and how many were missed beyond the limit."""
        return self._execution.facts.trace if self._execution is not None else ([], 0)

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}: {self.state}>"

    # Once

    def _execute(self, *, is_abandonable: bool = False, steps: Steps | None = None) -> Execution:
        """The one execution of this flow."""
        from torvyn.reactor.execution import Execution as NewExecution

        plan = self.plan
        with self._lock:
            self._must_be_new()
            execution = NewExecution(
                plan,
                self._clock,
                limit=self._limit,
                trace_limit=self._trace_limit,
                is_abandonable=is_abandonable,
                steps=steps,
                request_id=self.request_id,
            )
            self._execution = execution
        return execution.prepare()

    def _must_be_new(self) -> None:
        if self._execution is not None or self._is_cancelled:
            self._raise_already_ran()

    def _raise_already_ran(self) -> NoReturn:
        raise FlowError(
            "reactor.already-ran",
            f"flow `{self.name}` has been started; a flow runs once",
            hint="make a new flow",
        )

    def _raise_not_started(self, what: str) -> NoReturn:
        raise FlowError(
            "reactor.not-started",
            f"flow `{self.name}` has not been started: there is nothing to {what}",
            hint="call flow.start() first",
        )
