"""The flow in a program: build it, run it, iterate it, feed it, ask it.

A flow runs once. Whoever iterates it drives it on their own thread; leaving the loop cancels the sources. A flow
without a source is fed, one without a sink is iterated, one with both is run or started.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from torvyn.contract import Element, End, as_component
from torvyn.errors import FlowError
from torvyn.link import link_flow
from torvyn.link.draft import EdgeDraft, FlowDraft, NodeDraft
from torvyn.link.plan import Plan
from torvyn.reactor import statistics
from torvyn.reactor.failure import busy, exception_of, refused
from torvyn.reactor.workers import watch, workers

if TYPE_CHECKING:
    from torvyn._native import ManualClock, NativeFlow
    from torvyn.reactor.launch import Launch


class Flow:
    """A flow of components.

        flow = torvyn.Flow(["a", "b"], torvyn.filter(lambda e: e.text != "a"))
        for element in flow: ...

    The positional stages are joined in a chain. For branches use `add` and `connect`.
    """

    def __init__(
        self,
        *stages: Any,
        name: str = "main",
        priority: str | None = None,
        deadline_s: float | None = None,
        queue_depth: int | None = None,
        queue_bytes: int | None = None,
        backpressure: str | None = None,
        on_error: str | dict[str, Any] | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self._draft = FlowDraft(
            name,
            priority=priority,
            deadline_s=deadline_s,
            queue_depth=queue_depth,
            queue_bytes=queue_bytes,
            backpressure=backpressure,
            on_error=on_error,
        )
        self._plan: Plan | None = None
        self._clock = clock
        self._launch: Launch | None = None
        self._native: NativeFlow | None = None
        self._started_s = 0.0
        self._final: statistics.Statistics | None = None
        self._state = "created"
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._stop_ringing: Callable[[], None] | None = None
        self._driven_by_loop = False
        self._cancelled = False
        self._limit = 0
        self._trace_limit = 0
        self._trace: tuple[list[tuple[str, str, int, int, int, int, int]], int] = ([], 0)
        previous = None
        for stage in stages:
            component = as_component(stage)
            name = self._free_name(component.role)
            self.add(name, component)
            if previous is not None:
                self.connect(previous, name)
            previous = name

    @classmethod
    def from_plan(cls, plan: Plan, *, clock: ManualClock | None = None) -> Flow:
        flow = cls(name=plan.name, clock=clock)
        flow._plan = plan
        flow._state = "validated"
        return flow

    # Building

    def add(self, name: str, component: Any, **options: Any) -> Flow:
        """Adds a node: a component, or the name of a built-in. Options are those of `[flow.N.nodes.X]`."""
        self._must_be_new("add a node to")
        if name in self._draft.nodes:
            raise FlowError("reactor.name-taken", f"the flow has a node `{name}` already")
        thing = component if isinstance(component, str) else as_component(component)
        self._draft.nodes[name] = NodeDraft(name, thing, **options)
        self._plan = None
        return self

    def connect(self, source: str, target: str, **options: Any) -> Flow:
        """Adds an edge, `"node"` or `"node:port"`. Options are those of `[[flow.N.edges]]`."""
        self._must_be_new("add an edge to")
        from_node, _, port = source.partition(":")
        to_node, _, target_port = target.partition(":")
        self._draft.edges.append(
            EdgeDraft(from_node, to_node, port or None, target_port or None, **options)
        )
        self._plan = None
        return self

    def _free_name(self, role: str) -> str:
        taken, number = self._draft.nodes, 2
        if role not in taken:
            return role
        while f"{role}-{number}" in taken:
            number += 1
        return f"{role}-{number}"

    @property
    def plan(self) -> Plan:
        """The linked plan; raises `LinkError` when the flow is not one."""
        if self._plan is None:
            self._plan = link_flow(self._draft, open_start=True, open_end=True)
            if self._state == "created":
                self._state = "validated"
        return self._plan

    # Driving

    def run(self) -> statistics.Statistics:
        """Runs the flow to its end on this thread; raises what made it fail."""
        self._must_have_sink("run")
        native = self._start_native()
        native.attend()
        try:
            native.drive()
        finally:
            self._leave()
        self._raise_failure()
        return self.statistics

    def start(self) -> Flow:
        """Hands the flow to the worker threads and returns."""
        self._must_have_sink("start")
        pool = workers(self.plan.runtime.worker_threads)
        native = self._start_native()
        watch(native.key, self)
        native.start(pool)
        return self

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for a started flow; raises what made it fail. False when the time is over."""
        if not self._over.wait(timeout_s):
            return False
        self._raise_failure()
        return True

    def __iter__(self) -> Iterator[Element]:
        return self._iterate(text=False)

    def text(self) -> Iterator[str]:
        """The texts of what leaves the flow."""
        return self._iterate(text=True)

    def _iterate(self, text: bool) -> Iterator[Any]:
        self._must_be_open("iterate")
        native = self._start_native()
        try:
            yield from native.iterate(self._raise_failure, text)
        finally:
            self._leave()

    def __aiter__(self) -> AsyncIterator[Element]:
        self._must_be_open("iterate")
        from torvyn.reactor.loop_driver import LoopDriver

        return LoopDriver(self)

    async def run_async(self) -> statistics.Statistics:
        """`run` on the running event loop, which stays free for others between turns."""
        self._must_have_sink("run")
        from torvyn.reactor.loop_driver import run_on_loop

        await run_on_loop(self)
        self._raise_failure()
        return self.statistics

    # Feeding

    def feed(self, items: Any) -> list[Element]:
        """Puts one item or a list of them in, and gives what is ready at the other end.

        With an async or thread stage in the flow more may follow: `on_ready` tells, `ready` gives.
        """
        native = self._feeding()
        if self._over.is_set():
            self._raise_failure()
            self._must_be_new("feed")
        batch = items if isinstance(items, list) else [items]
        try:
            out, taken = native.feed(batch)
        except ValueError as error:
            raise refused(batch, str(error)) from None
        except RuntimeError:
            raise busy(self.plan) from None
        if self._over.is_set():
            # It may have ended half-way, by a verdict: what came after is not wanted.
            self._leave()
            self._raise_failure()
        elif taken < len(batch):
            full = FlowError(
                "reactor.feed-full",
                f"the flow took {taken} of {len(batch)} items: a stage behind does not keep up",
                hint="wait for `on_ready`, take what is `ready`, then feed the rest",
            )
            full.taken, full.ready = taken, out  # type: ignore[attr-defined]
            raise full
        return out

    def finish(self, end: End | None = None) -> list[Element]:
        """Says that no more will be fed; gives what was still inside and is ready."""
        native = self._feeding()
        try:
            out = native.finish_feed(end)
        except RuntimeError:
            raise busy(self.plan) from None
        return self._unless_over(native, out)

    def ready(self) -> list[Element]:
        """What has become ready since the last call. For flows that are fed."""
        native = self._feeding() if self._native is None else self._native
        out = native.outputs()
        if self._final is None:
            try:
                native.drive(False, False)
            except RuntimeError:
                raise busy(self.plan) from None
        return self._unless_over(native, out)

    def _unless_over(self, native: NativeFlow, out: list[Element]) -> list[Element]:
        out += native.outputs()
        if self._over.is_set():
            self._leave()
            self._raise_failure()
        return out

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when a stage away from this thread has made progress: on the running loop, if there is one."""
        from torvyn.reactor.loop_driver import call_when_ready

        if self._stop_ringing is not None:
            self._stop_ringing()
        self._stop_ringing = call_when_ready(self, callback)

    def _feeding(self) -> NativeFlow:
        if self._native is None:
            first = [node for node in self.plan.nodes if node.role == "source"]
            if first:
                raise FlowError(
                    "reactor.has-source",
                    f"the flow has a source, `{first[0].name}`, and cannot be fed",
                    hint="leave the source out: a flow without one is fed by its caller",
                )
            self._start_native().attend()
        assert self._native is not None
        return self._native

    # Ending

    def cancel(self) -> None:
        """Ends the flow at once; what is inside is discarded and counted. From any thread."""
        self._cancelled = True
        if self._native is not None:
            self._native.cancel()
        elif self._state in ("created", "validated"):
            self._state = "cancelled"
            self._over.set()

    def drain(self) -> None:
        """Stops the sources; what is inside still reaches the sinks. From any thread."""
        if self._native is not None:
            self._native.drain()

    def interrupt(self) -> None:
        """Drops what waits in the flow, except elements marked to be kept; the flow goes on."""
        if self._native is not None:
            self._native.interrupt()

    def limit(self, elements: int) -> Flow:
        """Drains by itself after so many elements of the sources."""
        self._limit = elements
        return self

    # Asking

    @property
    def name(self) -> str:
        return self._draft.name

    @property
    def state(self) -> str:
        """created, validated, instantiated, running, draining, completed, cancelled or failed."""
        return self._native.state if self._native is not None else self._state

    @property
    def statistics(self) -> statistics.Statistics:
        if self._final is not None:
            return self._final
        if self._native is None or self._launch is None:
            return statistics.nothing_yet(self.plan, self._state)
        elapsed_s = time.monotonic() - self._started_s
        return statistics.from_native(
            self.plan, self._launch.wiring, self._native.statistics(), elapsed_s
        )

    @property
    def end(self) -> End | None:
        """How the stream ended; None while it has not."""
        if self._native is None:
            return End("cancelled") if self._state == "cancelled" else None
        return self._native.end()

    @property
    def error(self) -> BaseException | None:
        """What made the flow fail."""
        return self._error

    def memory(self) -> dict[str, int]:
        """Bytes the reactor keeps for this flow: its state, and the slots of its queues."""
        state, queues = self._native.memory() if self._native is not None else (0, 0)
        return {"state_bytes": state, "queue_bytes": queues}

    def trace(self, limit: int = 1_000_000) -> Flow:
        """Records every call, up to `limit`; `take_trace` gives them. Slows the flow: for looking, not for running."""
        self._trace_limit = limit
        return self

    def take_trace(self) -> tuple[list[tuple[str, str, int, int, int, int, int]], int]:
        """The calls recorded: node, outcome, made, copied bytes so far, sequence, start and duration in
        nanoseconds; and how many were missed beyond the limit."""
        return self._trace

    # Inside

    def _start_native(self) -> NativeFlow:
        launch = self._prepare()
        try:
            launch.init()
        except BaseException as error:
            self._fail_early(error)
            raise
        return self._begin(launch)

    def _prepare(self) -> Launch:
        from torvyn.reactor.launch import Launch as NewLaunch

        plan = self.plan
        with self._lock:
            self._must_be_new("start")
            self._state = "starting"
        try:
            self._launch = NewLaunch(plan, self._clock)
        except BaseException as error:
            self._fail_early(error)
            raise
        return self._launch

    def _begin(self, launch: Launch) -> NativeFlow:
        self._state = "instantiated"
        native = launch.build()
        # The hook must not keep the flow alive: an abandoned flow is collected and cancels itself.
        this = weakref.ref(self)

        def over() -> None:
            flow = this()
            if flow is not None:
                flow._on_over()

        native.on_over(over)
        if self._limit:
            native.limit(self._limit)
        if self._trace_limit:
            native.trace(self._trace_limit)
        self._native = native
        if self._cancelled:
            native.cancel()
        self._started_s = time.monotonic()
        launch.go()
        return native

    def _fail_early(self, error: BaseException) -> None:
        self._state, self._error = "failed", error
        self._over.set()

    def _on_over(self) -> None:
        """The last turn has run, on whatever thread: keep the facts, tear down, tell those who wait."""
        if self._final is not None or self._launch is None:
            return
        self._keep_facts()
        # On a loop the teardown may have to be awaited: the loop's driver does it.
        if not self._driven_by_loop:
            self._launch.teardown()
            self._over.set()

    def _keep_facts(self) -> None:
        assert self._native is not None and self._launch is not None
        raw = self._native.take_failure()
        if raw is not None:
            self._error = exception_of(self.plan, self._launch.wiring, raw)
        self._final = self.statistics
        if self._trace_limit:
            events, missed = self._native.take_trace()
            names = [node.name for node in self.plan.nodes]
            self._trace = [(names[node], *rest) for node, *rest in events], missed

    def _leave(self) -> None:
        """The caller goes away: cancel what still runs, and let go of the components."""
        native = self._native
        if native is None:
            return
        if not self._over.is_set():
            native.cancel()
            native.drive(False, False)
        native.close()
        if self._stop_ringing is not None:
            self._stop_ringing()
            self._stop_ringing = None

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    def _must_be_new(self, what: str) -> None:
        if self._native is not None or self._state not in ("created", "validated"):
            raise FlowError(
                "reactor.already-ran",
                f"flow `{self.name}` has been started; a flow runs once",
                hint=f"make a new flow to {what} it",
            )

    def _must_have_sink(self, what: str) -> None:
        if not any(node.role == "sink" for node in self.plan.nodes):
            raise FlowError(
                "reactor.no-sink",
                f"flow `{self.name}` has no sink to {what} it into",
                hint="add a sink, or iterate the flow: `for element in flow`",
            )
        if not any(node.role == "source" for node in self.plan.nodes):
            raise FlowError(
                "reactor.no-source",
                f"flow `{self.name}` has no source",
                hint="add a source, or feed the flow: `flow.feed(item)`",
            )

    def _must_be_open(self, what: str) -> None:
        sinks = [node.name for node in self.plan.nodes if node.role == "sink"]
        if sinks:
            raise FlowError(
                "reactor.has-sink",
                f"flow `{self.name}` ends in a sink, `{sinks[0]}`: there is nothing to {what}",
                hint="use flow.run(), or leave the sink out",
            )

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}: {self.state}>"


