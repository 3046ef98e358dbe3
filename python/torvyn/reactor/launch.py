"""Launch: the components of one flow, from instantiation to teardown.

Everything here happens once a flow. `init` runs in topological order and is undone in reverse when
one fails, so whatever was initialised is torn down.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from dataclasses import dataclass
from typing import Any

from torvyn._native import ManualClock, NativeFlow, NativeStage
from torvyn.components.config import config_text
from torvyn.components.sink_file import File
from torvyn.contract import Component, Context
from torvyn.contract.probe import attach, is_a, read
from torvyn.errors import TorvynError
from torvyn.link import instantiate
from torvyn.link.plan import NodePlan, Plan
from torvyn.loops.background import background_loop
from torvyn.reactor.binding import bind
from torvyn.reactor.failure import (
    component_of,
    init_failure,
    init_timeout,
    is_from_outside,
    on_element,
    said,
    starting,
)
from torvyn.reactor.offload import ThreadRunner
from torvyn.reactor.offload_async import AsyncRunner, attempt
from torvyn.reactor.recording import Recording
from torvyn.sandbox.audit import Audit
from torvyn.sandbox.component import Allowance, GuestComponent, GuestHealth

logger = logging.getLogger("torvyn.reactor")

QUARTER_WEIGHTS = {"critical": 16, "high": 8, "normal": 4, "low": 2, "background": 1}


@dataclass(slots=True)
class Part:
    """One node's component and who runs it."""

    node: NodePlan
    component: Component
    config: str
    runner: ThreadRunner | AsyncRunner | None = None
    initialised: bool = False


class Launch:
    def __init__(self, plan: Plan, clock: ManualClock | None = None, trace_limit: int = 0) -> None:
        self.plan = plan
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self.wiring: list[tuple[str, str, str]] = []
        self.recording = Recording(trace_limit)
        flow_id = os.urandom(8).hex()
        self._audit = Audit(plan.audit, plan.audit_file, plan.name, flow_id)
        self.parts: list[Part] = []
        for node in plan.nodes:
            with starting(plan, node):
                part = self._part(node)
                if trace_limit and part.runner is not None:
                    self.recording.watch(node.name, node.role, part.component)
            self.parts.append(part)
        self.context = Context(
            flow_id=flow_id,
            flow_name=plan.name,
            trace_id=os.urandom(16).hex(),
            deadline_ns=None
            if plan.deadline_s is None
            else time.monotonic_ns() + int(plan.deadline_s * 1e9),
        )

    def _part(self, node: NodePlan) -> Part:
        component = instantiate(node.component)
        if is_a(component, GuestComponent):
            component.allow(self._allowance(node))
        if is_a(component, File) and self.plan.secrets:
            component.redact = self.plan.redact
        config = node.config or config_text(read(component, "config"))
        part = Part(node, component, config)
        if node.run == "thread":
            part.runner = ThreadRunner(component, node.role, node.ports, config)
        elif node.run == "async":
            limit_s = node.call_timeout_s
            part.runner = AsyncRunner(component, node.role, node.ports, config, limit_s)
        return part

    def _allowance(self, node: NodePlan) -> Allowance:
        init_timeout_s = node.init_timeout_s
        return Allowance(
            node.name,
            max_memory_bytes=node.max_memory_bytes,
            call_timeout_s=node.call_timeout_s,
            init_timeout_s=Allowance.DEFAULT_INIT_S if init_timeout_s is None else init_timeout_s,
            teardown_timeout_s=self.plan.runtime.teardown_timeout_s,
            fuel=node.fuel,
            seed=node.seed,
            grants=node.grants,
            audit=self._audit,
        )

    # Start

    def init(self) -> None:
        """Initialises all components from a thread; async ones on the background loop."""
        for part in self.parts:
            try:
                self._init_part(part)
            except BaseException as error:
                self.teardown()
                raise self._init_error(part.node, error) from error.__cause__
            part.initialised = True

    def _init_part(self, part: Part) -> None:
        self._prepare(part)
        timeout_s = part.node.init_timeout_s
        if isinstance(part.runner, ThreadRunner):
            if not part.runner.start(timeout_s):
                raise init_timeout(self.plan, part.node)
            if part.runner.init_error is not None:
                raise part.runner.init_error
        elif isinstance(part.runner, AsyncRunner):
            self._loop = background_loop()
            future = asyncio.run_coroutine_threadsafe(attempt(part.runner.init), self._loop)
            try:
                error = future.result(timeout_s)
            except TimeoutError:
                future.cancel()
                raise init_timeout(self.plan, part.node) from None
            if error is not None:
                raise error
        else:
            part.component.init(part.config)

    def _try_init(self, part: Part) -> BaseException | None:
        """What `init` raised, as a value: a future cannot carry `SystemExit` or `StopIteration`."""
        try:
            self._init_part(part)
        except BaseException as error:
            return error
        return None

    async def init_async(self) -> None:
        """Initialises all components on the running loop, which will run the async ones as well."""
        for part in self.parts:
            try:
                self._prepare(part)
                if isinstance(part.runner, AsyncRunner):
                    error = await asyncio.wait_for(
                        attempt(part.runner.init), part.node.init_timeout_s
                    )
                elif isinstance(part.runner, ThreadRunner):
                    error = await asyncio.to_thread(self._try_init, part)
                else:
                    error = await attempt(part.component.init, part.config)
            except TimeoutError:
                await self.teardown_async()
                raise init_timeout(self.plan, part.node) from None
            except BaseException as raised:
                error = raised
            if error is not None:
                await self.teardown_async()
                raise self._init_error(part.node, error) from error.__cause__
            part.initialised = True

    def _prepare(self, part: Part) -> None:
        """Before the first guest starts there is a place to write down what it is granted."""
        if is_a(part.component, GuestComponent):
            self._audit.open()

    @property
    def denied(self) -> dict[str, dict[str, int]]:
        """What guests were denied so far, by node."""
        return {
            part.node.name: guest.denied
            for part in self.parts
            if is_a(guest := part.component, GuestComponent)
        }

    def _init_error(self, node: NodePlan, error: BaseException) -> BaseException:
        if isinstance(error, TorvynError) and error.code == "reactor.init-timeout":
            return error
        return init_failure(self.plan, node, error)

    def build(self) -> NativeFlow:
        """The native flow, ready for its first turn."""
        plan = self.plan
        native = NativeFlow(
            [self._node_tuple(part) for part in self.parts],
            self._edge_tuples(),
            self.context,
            quarter_weight=QUARTER_WEIGHTS[plan.priority],
            turn_elements=plan.runtime.turn_elements,
            turn_time_ns=int(plan.runtime.turn_time_s * 1e9),
            drain_timeout_ns=int(plan.runtime.drain_timeout_s * 1e9),
            level=plan.observability,
            on_error=self._report_error,
            deadline_ns=None if plan.deadline_s is None else int(plan.deadline_s * 1e9),
            clock=self._clock,
        )
        for index, part in enumerate(self.parts):
            handle = native.node(index)
            if part.runner is None:
                attach(part.component, handle)
            else:
                part.runner.node.native = handle
        return native

    def go(self) -> None:
        """Lets the runners begin. For async ones, on their loop."""
        for part in self.parts:
            if isinstance(part.runner, AsyncRunner) and self._loop is not None:
                self._loop.call_soon_threadsafe(part.runner.go)
            elif part.runner is not None:
                part.runner.go()

    @property
    def guests(self) -> dict[str, GuestHealth]:
        """How the nodes in the sandbox fare."""
        return {
            part.node.name: part.component.health
            for part in self.parts
            if is_a(part.component, GuestComponent)
        }

    @property
    def is_idle(self) -> bool:
        """Whether every stage that runs elsewhere waits for something from outside."""
        return all(part.runner is None or part.runner.is_idle for part in self.parts)

    def _node_tuple(self, part: Part) -> tuple[Any, ...]:
        node, policy = part.node, part.node.on_error
        retries = policy.max if policy.policy == "retry" else 0
        recovery = policy.then if policy.policy == "retry" else policy.policy
        with starting(self.plan, node):
            work = self._work(part)
        return (
            node.role,
            work,
            list(node.ports),
            retries,
            int(policy.backoff_s * 1e9),
            recovery,
            node.max_memory_bytes,
        )

    def _work(self, part: Part) -> Any:
        if part.runner is not None:
            return part.runner.port
        if is_a(part.component, GuestComponent):
            return part.component.stage(part.node.ports, self.context)
        make_native = read(part.component, "native_stage", None)
        native = make_native(part.config) if make_native is not None else None
        return bind(part.component, part.node.role) if native is None else NativeStage(*native)

    def _edge_tuples(self) -> list[tuple[Any, ...]]:
        index = {node.name: position for position, node in enumerate(self.plan.nodes)}
        port = {
            node.name: {name: at for at, name in enumerate(node.ports)} for node in self.plan.nodes
        }
        tuples: list[tuple[Any, ...]] = []
        for edge in self.plan.edges:
            limits = (edge.depth, edge.bytes, edge.backpressure, edge.low_watermark)
            at = port[edge.source][edge.port]
            tuples.append((index[edge.source], at, index[edge.target], *limits))
            self.wiring.append((edge.source, edge.port, edge.target))
        sources = {edge.source for edge in self.plan.edges}
        targets = {edge.target for edge in self.plan.edges}
        for node in self.plan.nodes:
            if node.role != "source" and node.name not in targets:
                tuples.append((-1, 0, index[node.name], 64, 1 << 20, "block", 0.5))
                self.wiring.append(("", "output", node.name))
            if node.role != "sink" and node.name not in sources:
                tuples.append((index[node.name], 0, -1, 64, 1 << 20, "block", 0.5))
                self.wiring.append((node.name, "output", ""))
        return tuples

    # End

    def teardown(self) -> None:
        """Tears down what was initialised, last first. Failures are reported, never raised: the
        flow is over."""
        limit_s = self.plan.runtime.teardown_timeout_s
        for part in reversed(self.parts):
            if isinstance(part.runner, ThreadRunner):
                if part.runner.is_started:
                    # One that hangs in `init` has had its time.
                    patience_s = limit_s if part.runner.ready.is_set() else 0
                    self._report(part, part.runner.stop(patience_s))
            elif isinstance(part.runner, AsyncRunner):
                if self._loop is not None and part.runner._loop is not None:
                    self._stop_on_loop(part, self._loop, limit_s)
            elif part.initialised:
                self._teardown_inline(part, limit_s)
            attach(part.component, None)
            part.initialised = False
        self._audit.close()

    def _stop_on_loop(self, part: Part, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        assert isinstance(part.runner, AsyncRunner)
        future = asyncio.run_coroutine_threadsafe(part.runner.stop(limit_s), loop)
        if asyncio._get_running_loop() is loop:
            # The flow ended on the loop's own thread, which cannot wait for itself.
            future.add_done_callback(lambda done: self._report(part, done.result()))
        else:
            self._report(part, future.result())

    async def teardown_async(self) -> None:
        """The same, on the running loop."""
        limit_s = self.plan.runtime.teardown_timeout_s
        for part in reversed(self.parts):
            if isinstance(part.runner, AsyncRunner):
                if part.runner._loop is not None:
                    self._report(part, await part.runner.stop(limit_s))
            elif isinstance(part.runner, ThreadRunner):
                # A start that still waits for a thread of the loop's own cannot be taken back.
                part.runner.let_go()
                if part.runner.is_started:
                    self._report(part, await asyncio.to_thread(part.runner.stop, limit_s))
            elif part.initialised:
                result = self._teardown_inline(part, limit_s)
                if inspect.isawaitable(result):
                    await result
            attach(part.component, None)
            part.initialised = False
        self._audit.close()

    def let_go(self) -> None:
        """The last resort, when the loop cannot do it any more: nothing is awaited, all freed."""
        for part in reversed(self.parts):
            if part.runner is not None:
                part.runner.let_go()
            elif part.initialised:
                result = self._teardown_inline(part, self.plan.runtime.teardown_timeout_s)
                if inspect.iscoroutine(result):
                    result.close()
            attach(part.component, None)
            part.initialised = False
        self._audit.close()

    def _teardown_inline(self, part: Part, limit_s: float) -> Any:
        started = time.monotonic()
        result = None
        try:
            result = part.component.teardown()
        except BaseException as error:
            if is_from_outside(error):
                raise
            logger.warning("node `%s` failed in `teardown`", part.node.name, exc_info=True)
        if time.monotonic() - started > limit_s:
            logger.warning("node `%s` took long to tear down", part.node.name)
        return result

    def _report_error(
        self,
        index: int,
        kind: str,
        message: str,
        count: int,
        cause: BaseException | None,
        sequence: int | None,
    ) -> None:
        """An error that the node's policy lives with. Told at the first, second, fourth..."""
        node = self.plan.nodes[index]
        # A dead letter says itself why it failed; of what was skipped nothing else is left.
        kept = "dead-letter" in (node.on_error.policy, node.on_error.then)
        logger.log(
            logging.INFO if kept else logging.WARNING,
            "node `%s`%s failed%s (%d so far, policy `%s`): %s",
            node.name,
            component_of(node),
            on_element(sequence),
            count,
            node.on_error.policy,
            self.plan.redact(said(cause, message)),
            exc_info=cause if logger.isEnabledFor(logging.DEBUG) else None,
            extra={
                "node": node.name,
                "kind": kind,
                "count": count,
                "sequence": sequence,
                "event": "node.error",
            },
        )

    def _report(self, part: Part, ended: bool) -> None:
        error = part.runner.teardown_error if part.runner is not None else None
        if error is not None:
            logger.warning("node `%s` failed in `teardown`", part.node.name, exc_info=error)
        if not ended:
            logger.warning(
                "node `%s` did not end within %g s and was abandoned",
                part.node.name,
                self.plan.runtime.teardown_timeout_s,
                extra={"node": part.node.name, "event": "node.abandoned"},
            )
