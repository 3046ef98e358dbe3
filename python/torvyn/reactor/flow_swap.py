"""Exchanging components of a flow while it runs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Unpack

from torvyn._contract.enums import Role
from torvyn._contract.functions import Stage
from torvyn._link.plan import NodePlan, Plan
from torvyn.reactor.flow_builder import component_of
from torvyn.reactor.flow_feed import FlowFeed

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.swap.new_node import Config
    from torvyn.reactor.swap.swap_report import SwapReport
    from torvyn.reactor.swap.swapper import SwapKeywords

_TURN_S: Final = 0.001
"""How often a caller that drives its flow itself runs a turn while it waits for a swap."""


class SwappableFlow(FlowFeed):
    """The methods of a `Flow` that exchange its components."""

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
        return self.swap_node(self._new_node(node, component, config), **options)

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

    def swap_node(self, node: NodePlan, **options: Unpack[SwapKeywords]) -> SwapReport:
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
    def stateful_nodes(self) -> set[str]:
        """The nodes whose components have a state."""
        from torvyn.reactor.run.component_state import has_state

        runners = [] if self._execution is None else self._execution.runners
        return {runner.node.name for runner in runners if has_state(runner.component)}

    @property
    def unsaved_states(self) -> dict[str, str]:
        """What nodes hold that no checkpoint saves, by their names: a restart would lose it."""
        from torvyn._contract.roles import counts_held_elements
        from torvyn.reactor.run.component_state import has_state
        from torvyn.reactor.swap.state_transfer import unsaved

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
    def running_plan(self) -> Plan:
        """The plan with the components that run now."""
        plan, execution = self.plan, self._execution
        if execution is None:
            return plan
        now = {runner.node.name: runner.node for runner in execution.runners}
        return replace(plan, nodes=tuple(now.get(node.name, node) for node in plan.nodes))

    def _new_node(self, name: str, component: Stage, config: Config) -> NodePlan:
        from torvyn.reactor.swap.new_node import link_node
        from torvyn.reactor.swap.refusals import unknown_node

        plan = self.running_plan
        old = next((node for node in plan.nodes if node.name == name), None)
        if old is None:
            names = ", ".join(f"`{node.name}`" for node in plan.nodes)
            raise unknown_node(self.name, name, f"its nodes are {names}")
        return link_node(plan, old, component_of(component), config)

    def _submit(self, node: NodePlan, options: SwapKeywords) -> Future[SwapReport]:
        """Carries the swap out on another thread: `init` may block."""
        from torvyn.reactor.swap.refusals import not_running
        from torvyn.reactor.swap.swapper import SwapOptions
        from torvyn.reactor.threads.spare_threads import call_on_spare_thread

        execution = self._execution
        if execution is None or execution.native is None:
            raise not_running(self.name)
        swapper, wanted = execution.swaps.swapper, SwapOptions(**options)
        return call_on_spare_thread(lambda: swapper.swap(node, wanted))


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
