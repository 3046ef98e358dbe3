"""The flow as a program uses it: build, run, iterate, feed, and exchange its components.

A flow runs once. Iterating drives it on your own thread, and leaving the loop cancels it. Feed a
flow without a source, iterate over one without a sink, run or start one with both. Nodes and edges
become the records that the manifest's parser makes, so both are linked by the same rules.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, Unpack, overload

from torvyn._contract.element import Element
from torvyn._contract.enums import FlowState, Role, TurnStatus
from torvyn._contract.functions import Stage, as_component
from torvyn._contract.inspection import is_instance
from torvyn._contract.options import Backpressure, EdgeOptions, NodeOptions, OnError, Priority
from torvyn._contract.roles import Component, Emission
from torvyn._contract.signals import End
from torvyn._flow.failures import busy_error, feed_error
from torvyn._flow.statistics import Statistics, empty_statistics
from torvyn._io.line_output import write_as, writer_key
from torvyn._link.component_traits import role_of
from torvyn._link.flow_linker import link_flow
from torvyn._link.plan import NodePlan, Plan
from torvyn._manifest.records import EdgeRecord, FlowRecord, NodeRecord, PortRef
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn._flow.execution import Execution
    from torvyn._flow.run_statistics import Call
    from torvyn._flow.stepped_runner import StepScheduler
    from torvyn._flow.swap import SwapKeywords
    from torvyn._flow.swap_checks import Config
    from torvyn._flow.swap_order import SwapReport
    from torvyn._native import ManualClock, NativeFlow

# A list of str is not a `list[Emission]`: lists are invariant.
EmissionT = TypeVar("EmissionT", bound=Emission)
_TURN_S: Final = 0.001
"""How often a caller that drives its flow itself runs a turn while it waits for a swap."""


class Flow:
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
        self._discarded_states: Collection[str] = ()
        """The nodes whose saved states the run discards."""
        self._continued_nodes: Collection[str] = ()
        """The nodes that have run before, in a flow that this one continues."""
        self._is_cancelled = False
        self.request_id: str | None = None
        """The request that the flow works for, as in `Element.context`. Set it before the run."""
        self._plan: Plan | None = None
        self._is_fed = False
        self._record = FlowRecord(
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
        self._add_chain(stages)

    @classmethod
    def from_plan(cls, plan: Plan, *, clock: ManualClock | None = None) -> Flow:
        flow = cls(name=plan.name, clock=clock)
        flow._plan = plan
        return flow

    # Build

    def _add_chain(self, stages: Iterable[Stage]) -> None:
        previous = None
        for stage in stages:
            component = component_of(stage)
            name = self._free_name(_title(component))
            self._record.nodes[name] = NodeRecord(name, component)
            if previous is not None:
                self._record.edges.append(EdgeRecord(PortRef(previous), PortRef(name)))
            previous = name

    @property
    def name(self) -> str:
        return self._record.name

    def add(self, name: str, component: Stage, **options: Unpack[NodeOptions]) -> Self:
        """Adds a node: a component, or the name of a built-in one.

        The options are those of `[flow.N.nodes.X]`.
        """
        self._must_be_new()
        if name in self._record.nodes:
            raise FlowError("reactor.name-taken", f"the flow already has a node `{name}`")
        self._record.nodes[name] = NodeRecord(name, component_of(component), **options)
        self._plan = None
        return self

    def connect(self, source: str, target: str, **options: Unpack[EdgeOptions]) -> Self:
        """Adds an edge from `"node"` or `"node:port"`. The options are those of
        `[[flow.N.edges]]`."""
        self._must_be_new()
        edge = EdgeRecord(PortRef.parse(source), PortRef.parse(target), **options)
        self._record.edges.append(edge)
        self._plan = None
        return self

    @property
    def plan(self) -> Plan:
        """The linked plan; raises `LinkError` when the flow has problems."""
        if self._plan is None:
            self._plan = link_flow(self._record, open_start=True, open_end=True)
        return self._plan

    def limit(self, elements: int) -> Flow:
        """Drains the flow after its sources have sent this many elements; 0 pulls nothing."""
        self._limit = elements
        return self

    def trace(self, limit: int = 1_000_000) -> Flow:
        """Records up to `limit` calls, which `take_trace` returns. Slows the flow down."""
        self._trace_limit = limit
        return self

    def _free_name(self, title: str) -> str:
        names, number = self._record.nodes, 2
        if title not in names:
            return title
        while f"{title}-{number}" in names:
            number += 1
        return f"{title}-{number}"

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
        from torvyn._flow.event_loop import drive_on_loop
        from torvyn._io.other_loops import require_asyncio

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
        from torvyn._flow.threads import keep_flow, release_flow, workers

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
        from torvyn._flow.event_loop import AsyncFlowIterator

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

    # One run

    def _execute(
        self, *, is_abandonable: bool = False, scheduler: StepScheduler | None = None
    ) -> Execution:
        """Creates the only execution of this flow."""
        from torvyn._flow.execution import Execution as NewExecution

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
                discards=self._discarded_states,
                continued=self._continued_nodes,
            )
            self._execution = execution
        return execution.prepare()

    # Feed

    @overload
    def feed(self, items: Emission | list[Emission]) -> list[Element]: ...

    @overload
    def feed(self, items: list[EmissionT]) -> list[Element]: ...

    def feed(self, items: Any) -> list[Element]:
        """Puts one item or a list of items in, and returns the outputs that are ready.

        If the flow has an async or thread stage, more may follow: `on_ready` notifies you, and
        `ready` returns them.
        """
        execution, native = self._feed_target()
        if execution.events.over.is_set():
            execution.raise_failure()
            self._raise_already_ran()
        batch = items if isinstance(items, list) else [items]
        try:
            outputs, accepted = native.feed(batch)
        except ValueError as error:
            raise feed_error(batch, str(error), self.statistics) from None
        except RuntimeError:
            raise busy_error(self.plan) from None
        return self._feed_result(execution, native, batch, outputs, accepted)

    def feed_text(self, text: str) -> str | list[Element]:
        """Feeds one text. Returns the outputs joined to a str, without making elements, if they
        are texts without attributes and the flow goes on."""
        execution = self._execution
        native = None if execution is None else execution.native
        if execution is None or native is None:
            return self.feed(text)
        try:
            result = native.feed_text(text)
        except ValueError as error:
            raise feed_error([text], str(error), self.statistics) from None
        except RuntimeError:
            raise busy_error(self.plan) from None
        if isinstance(result, str):
            return result
        if native.is_over and not result[1]:
            return self.feed(text)  # It raises the reason.
        return self._feed_result(execution, native, [text], *result)

    @property
    def _native_feed(self) -> NativeFlow | None:
        """The flow in native code, which may be fed there; `_absorb` then takes its outputs."""
        return None if self._execution is None else self._execution.native

    def _absorb(self, outputs: list[Element]) -> list[Element]:
        """Outputs of what was fed in native code. Raises the failure of the flow."""
        execution, native = self._feed_target()
        return self._feed_result(execution, native, [], outputs, 0)

    def _feed_result(
        self,
        execution: Execution,
        native: NativeFlow,
        batch: list[Any],
        outputs: list[Element],
        accepted: int,
    ) -> list[Element]:
        if native.is_over:
            # A verdict or a cancel may have ended it within the batch: the rest is not needed.
            return self._collect(execution, native, outputs)
        if accepted < len(batch):
            full = FlowError(
                "reactor.feed-full",
                f"the flow accepted {accepted} of {len(batch)} items: a later stage is too slow",
                hint="wait for `on_ready`, take the outputs with `ready`, then feed the rest",
            )
            full.accepted, full.ready = accepted, outputs
            raise full
        return outputs

    def finish(self, end: End | None = None) -> list[Element]:
        """Ends the input, and returns the outputs that are ready."""
        execution, native = self._feed_target()
        try:
            outputs = native.finish_feed(end)
        except RuntimeError:
            raise busy_error(self.plan) from None
        return self._collect(execution, native, outputs)

    def ready(self) -> list[Element]:
        """The outputs since the last call, of a flow that you feed."""
        execution, native = self._feed_target()
        outputs = native.outputs()
        try:
            # Until it parks: a wake-up during a turn needs another turn.
            while (
                not execution.counts.is_final
                and native.drive(False, False) is not TurnStatus.PARKED
            ):
                outputs += native.outputs()
        except RuntimeError:
            raise busy_error(self.plan) from None
        return self._collect(execution, native, outputs)

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when an async or thread stage has made progress.

        It runs on the running event loop if there is one, else on a thread of torvyn.
        """
        from torvyn._flow.event_loop import call_when_ready

        execution, native = self._feed_target()
        if execution.cancel_ready_callback is not None:
            execution.cancel_ready_callback()
        execution.cancel_ready_callback = call_when_ready(native, callback)

    def _feed_target(self) -> tuple[Execution, NativeFlow]:
        execution = self._execution
        if execution is None:
            self._must_be_fed()
            execution = self._execute()
            self._is_fed = True
            native = execution.start()
            execution.driver_thread = threading.get_ident()
            if any(node.run != "inline" for node in self.plan.nodes):
                # Other flows never wait, and the signal costs two file descriptors.
                native.drive_from_thread()
        if execution.native is None:
            self._raise_already_ran()
        return execution, execution.native

    def _collect(
        self, execution: Execution, native: NativeFlow, outputs: list[Element]
    ) -> list[Element]:
        outputs += native.outputs()
        if execution.events.over.is_set():
            execution.close()
            if isinstance(execution.error, FlowError):
                # The outputs from before the failure are not lost.
                execution.error.ready = outputs
            execution.raise_failure()
        return outputs

    def _cancel_feed(self, execution: Execution) -> None:
        """Runs the last turn, which nothing else would. If a thread is inside `feed`, the flow is
        busy, and that call runs it."""
        if self._is_fed:
            with contextlib.suppress(RuntimeError):
                execution.close()

    # Exchange components

    def swap(
        self,
        node: str,
        component: Stage,
        *,
        config: Config = None,
        **options: Unpack[SwapKeywords],
    ) -> SwapReport:
        """Exchanges the component of a node for a new one while the flow runs.

        Every element is processed by one of the two; none is lost or repeated. The state of the old
        component goes to the new one by `snapshot` and `restore`. If the swap is not possible, it
        raises the reason, and the old component goes on. Call it from any thread, but not from a
        component of the flow.
        """
        return self._swap_node(self._new_node(node, component, config), **options)

    async def swap_async(
        self,
        node: str,
        component: Stage,
        *,
        config: Config = None,
        **options: Unpack[SwapKeywords],
    ) -> SwapReport:
        """Like `swap`, for a task on an event loop."""
        import asyncio

        plan = self._new_node(node, component, config)
        future = self._submit(plan, options)
        while not future.done():
            execution = self._execution
            if execution is not None and execution.is_on_loop:
                # The loop may wait for the reader of this flow, which waits for the swap.
                _run_turn(execution)
            await asyncio.sleep(_TURN_S)
        return future.result()

    def _swap_node(self, node: NodePlan, **options: Unpack[SwapKeywords]) -> SwapReport:
        """Like `swap`, with a node of a plan that was linked anew."""
        future = self._submit(node, options)
        execution = self._execution
        assert execution is not None
        if execution.driver_thread == threading.get_ident():
            while not future.done():
                _run_turn(execution)
                _wait(future, _TURN_S)
        return future.result()

    @property
    def swaps(self) -> list[SwapReport]:
        """What was exchanged so far."""
        execution = self._execution
        if execution is None or "swaps" not in vars(execution):
            return []
        return list(execution.swaps.swapper.reports)

    @property
    def _stateful_nodes(self) -> set[str]:
        """The nodes whose components have a state."""
        from torvyn._durable.checkpoint import has_state

        runners = [] if self._execution is None else self._execution.runners
        return {runner.node.name for runner in runners if has_state(runner.component)}

    @property
    def _unsaved_states(self) -> dict[str, str]:
        """What nodes hold that no checkpoint saves, by their names: a restart would lose it."""
        from torvyn._contract.roles import counts_held_elements
        from torvyn._durable.checkpoint import has_state
        from torvyn._flow.swap_checks import unsaved

        runners = [] if self._execution is None else self._execution.runners
        return {
            runner.node.name: what
            for runner in runners
            if runner.node.role != Role.SOURCE
            and not has_state(runner.component)
            and not counts_held_elements(runner.component, runner.node.role)
            and (what := unsaved(runner))
        }

    @property
    def _running_plan(self) -> Plan:
        """The plan with the components that run now."""
        plan, execution = self.plan, self._execution
        if execution is None:
            return plan
        now = {runner.node.name: runner.node for runner in execution.runners}
        return replace(plan, nodes=tuple(now.get(node.name, node) for node in plan.nodes))

    def _new_node(self, name: str, component: Stage, config: Config) -> NodePlan:
        from torvyn._flow.swap_checks import link_node, unknown_node

        plan = self._running_plan
        old = next((node for node in plan.nodes if node.name == name), None)
        if old is None:
            names = ", ".join(f"`{node.name}`" for node in plan.nodes)
            raise unknown_node(self.name, name, f"its nodes are {names}")
        return link_node(plan, old, component_of(component), config)

    def _submit(self, node: NodePlan, options: SwapKeywords) -> Future[SwapReport]:
        """Carries the swap out on another thread: `init` may block."""
        from torvyn._flow.swap import SwapOptions
        from torvyn._flow.swap_checks import not_running
        from torvyn._flow.threads import call_on_spare_thread

        execution = self._execution
        if execution is None or execution.native is None:
            raise not_running(self.name)
        swapper, wanted = execution.swaps.swapper, SwapOptions(**options)
        return call_on_spare_thread(lambda: swapper.swap(node, wanted))

    # What a flow can be used for

    def _must_be_new(self) -> None:
        if self._execution is not None or self._is_cancelled:
            self._raise_already_ran()

    def _raise_already_ran(self) -> NoReturn:
        raise FlowError(
            "reactor.already-ran",
            f"flow `{self.name}` has been started; a flow runs once",
            hint="create a new flow",
        )

    def _must_be_closed(self, what: str) -> None:
        if self.plan.tail is not None:
            raise FlowError(
                "reactor.no-sink",
                f"flow `{self.name}` cannot {what}: it has no sink",
                hint="add a sink, or iterate the flow: `for element in flow`",
            )
        self._must_have_source()

    def _must_be_open(self) -> None:
        if self.plan.tail is None:
            sinks = [node.name for node in self.plan.nodes if node.role == "sink"]
            raise FlowError(
                "reactor.has-sink",
                f"flow `{self.name}` ends in a sink, `{sinks[0]}`, and has no outputs to iterate",
                hint="use flow.run(), or remove the sink",
            )
        self._must_have_source()

    def _must_have_source(self) -> None:
        if self.plan.head is not None:
            raise FlowError(
                "reactor.no-source",
                f"flow `{self.name}` has no source",
                hint="add a source, or feed the flow: `flow.feed(item)`",
            )

    def _must_be_fed(self) -> None:
        if self.plan.head is None:
            sources = [node.name for node in self.plan.nodes if node.role == "source"]
            raise FlowError(
                "reactor.has-source",
                f"the flow has a source, `{sources[0]}`, and cannot be fed",
                hint="remove the source: the caller feeds a flow that has none",
            )


def component_of(stage: Stage) -> str | Component:
    """The component of a stage, or the name of a built-in one as it is."""
    return stage if is_instance(stage, str) else as_component(stage)


def _title(component: str | Component) -> str:
    """What the node of a stage is called: the built-in component, or else the role."""
    return component.rpartition(":")[2] if isinstance(component, str) else role_of(component)


def _run_turn(execution: Execution) -> None:
    """A turn of a flow that only its caller drives, once the new component is ready."""
    native = execution.native
    if native is None or native.is_over or not execution.swaps.swapper.needs_turn:
        return
    try:
        native.turn_once()
    except RuntimeError:
        return  # A component of the flow waits for the swap, or another thread runs the turn.
    native.wake()


def _wait(future: Future[SwapReport], timeout_s: float) -> None:
    try:
        future.exception(timeout_s)
    except TimeoutError:
        return
