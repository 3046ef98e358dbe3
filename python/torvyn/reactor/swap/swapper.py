"""Exchanges components of one run, one at a time.

The new component is initialized beside the old one. The native core then waits until the node is
between two elements, has the state handed over and puts the new stage in the place of the old one.
The old component stays ready until the new one has proved itself.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Collection
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict

from torvyn.concurrency.line_output import lines_with
from torvyn.link.plan import NodePlan, Plan
from torvyn.manifest.problems import suggestion
from torvyn.reactor.run.aggregator_checks import check_aggregators
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver
from torvyn.reactor.swap import refusals
from torvyn.reactor.swap.candidate import Candidate
from torvyn.reactor.swap.exclusive_swap import ExclusiveSwap, is_exclusive
from torvyn.reactor.swap.new_node import check_component, check_fit
from torvyn.reactor.swap.state_transfer import move_state, plan_transfer
from torvyn.reactor.swap.swap_order import Exchange, Refused, SwapOrder
from torvyn.reactor.swap.swap_report import State, SwapReport, make_report
from torvyn.reactor.swap.warm_stages import WarmStage, WarmStages, can_return

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.run.run_swaps import RunSwaps
    from torvyn.reactor.swap.graph_swap import GraphReport

logger = logging.getLogger("torvyn.reactor")

TIMEOUT_S: Final = 10.0
"""How long a swap waits for the calls that have begun."""
TRIAL_S: Final = 10.0
"""How long the old component stays ready."""
_TURN_S: Final = 2.0
"""How much longer a flow may take to run a turn."""
_KEPT_REPORTS: Final = 1000


class SwapKeywords(TypedDict, total=False):
    """The keywords of `Flow.swap`."""

    timeout_s: float
    """How long it waits for the calls that have begun."""
    trial_s: float
    """How long the old component stays ready, and returns if the new one fails."""
    discard_state: bool
    """The new component starts without the state of the old one."""


@dataclass(frozen=True, slots=True)
class SwapOptions:
    timeout_s: float = TIMEOUT_S
    trial_s: float = TRIAL_S
    discard_state: bool = False


class Swapper:
    def __init__(self, execution: Execution, swaps: RunSwaps) -> None:
        # A strong reference would keep a dropped run alive.
        self._execution = weakref.ref(execution)
        self._swaps = weakref.proxy(swaps)
        self._line_prefix: Final = execution.line_prefix
        self._turn = threading.Lock()
        self._order: SwapOrder | None = None
        self._warm = WarmStages(execution)
        self._is_over = False
        self.reports: deque[SwapReport] = deque(maxlen=_KEPT_REPORTS)

    def swap(self, node: NodePlan, options: SwapOptions) -> SwapReport:
        """Exchanges the component of a node. Blocks; call it outside the turns."""
        with self._turn, lines_with(self._line_prefix):
            execution = self._running()
            index = self._index(execution, node.name)
            old = execution.runners[index]
            check_fit(old.node, node)
            # The version that is being watched has to do: there is only one way back.
            self._warm.settle(node.name)
            new = Candidate(execution, old, node)
            try:
                state = self._check(execution, index, old, new.runner, options)
                if is_exclusive(old) or is_exclusive(new.runner):
                    return ExclusiveSwap(self, execution, index, options.timeout_s).run(new, state)
                new.init()
                order = self._make_order(index, old, new.runner, state, options)
                self.carry_out(execution, index, order)
                assert order.report is not None
                return order.report
            except BaseException:
                new.discard()
                raise

    @property
    def needs_turn(self) -> bool:
        """Whether a swap waits for the next turn of the flow."""
        order = self._order
        return order is not None and order.is_posted

    def _running(self) -> Execution:
        execution = self._execution()
        native = None if execution is None else execution.native
        if execution is None or native is None or native.is_over or self._is_over:
            raise refusals.not_running("" if execution is None else execution.plan.name)
        return execution

    def _index(self, execution: Execution, name: str) -> int:
        nodes = execution.plan.nodes
        for index, node in enumerate(nodes):
            if node.name == name and self._is_own(execution, index):
                return index
        known = [node.name for at, node in enumerate(nodes) if self._is_own(execution, at)]
        hint = suggestion(name, known, f"its nodes are {', '.join(known)}")
        raise refusals.unknown_node(execution.plan.name, name, hint)

    def _is_own(self, execution: Execution, index: int) -> bool:
        """Whether it is a node of the flow that runs, as its author knows it."""
        is_end = execution.plan.nodes[index].component.kind == "carrier"
        return index not in execution.retired and not is_end

    def swap_graph(
        self, plan: Plan, replaced: Collection[str], options: SwapOptions
    ) -> GraphReport:
        """Gives the flow a new graph. Blocks; call it outside the turns."""
        from torvyn.reactor.swap.graph_swap import GraphSwap

        with self._turn, lines_with(self._line_prefix):
            execution = self._running()
            for node in execution.plan.nodes:
                self._warm.settle(node.name)
            return GraphSwap(execution, plan, replaced, options).run()

    def _check(
        self, execution: Execution, index: int, old: Runner, new: Runner, options: SwapOptions
    ) -> State:
        check_component(old, new)
        state = plan_transfer(old, new, options.discard_state)
        runners = [*execution.runners[:index], new, *execution.runners[index + 1 :]]
        if execution.durable is None:
            check_aggregators(execution.plan, runners)
        else:
            execution.durable.check_swap(old, new, runners)
        return state

    def _make_order(
        self, index: int, old: Runner, new: Runner, state: State, options: SwapOptions
    ) -> SwapOrder:
        moves = state == "restored"
        context = self._swaps.context(index)

        def transfer(native_state: bytes | None) -> Any:
            # `restore` may need the time of the flow.
            self._swaps.attach(index, new)
            if moves:
                move_state(old, new, native_state)
            return new.native_work(context)

        def on_exchanged(done: Exchange) -> SwapOrder | None:
            self._swaps.install(index, new)
            new.start()
            order.report = make_report(new, done, state)
            self.reports.append(order.report)
            warm = WarmStage(old, done.old)
            if options.trial_s <= 0 or not can_return(old, new, moves):
                self._warm.tear_down(warm)
                return None
            self._warm.keep(warm, options.trial_s)
            return self._way_back(index, warm, new, moves, order)

        order = SwapOrder(
            new.node,
            context,
            transfer,
            on_exchanged,
            lambda: old.is_idle,
            options.timeout_s,
            options.trial_s,
            moves,
            state == "empty",
        )
        return order

    def _way_back(
        self, index: int, warm: WarmStage, new: Runner, moves: bool, order: SwapOrder
    ) -> SwapOrder:
        """The order for the case that the new component fails on trial."""
        old, context = warm.runner, order.context

        def transfer(native_state: bytes | None) -> Any:
            if not moves:
                return warm.stage
            if old.node.run != "inline":
                move_state(new, old, native_state)
                return warm.stage
            # The instance of a guest returns to its component, and iterators are made anew.
            warm.stage.release()
            move_state(new, old, native_state)
            return old.native_work(context)

        def on_exchanged(done: Exchange) -> None:
            self._warm.take(old)
            self._swaps.install(index, old)
            self._warm.tear_down(WarmStage(new, done.old))
            self._report_return(old, done, "restored" if moves else "none")

        return SwapOrder(
            old.node,
            context,
            transfer,
            on_exchanged,
            lambda: new.is_idle,
            order.timeout_s,
            0.0,
            moves,
            False,
            is_return=True,
        )

    def carry_out(self, execution: Execution, index: int, order: SwapOrder) -> Exchange:
        """Has the native core exchange the stages; raises if it cannot."""
        self._order = order
        try:
            outcome = self._wait(execution, index, order)
        finally:
            self._order = None
        if isinstance(outcome, Refused):
            node = execution.runners[index].node
            raise refusals.refusal(execution.plan.name, node, outcome, order.timeout_s)
        return outcome

    def _wait(self, execution: Execution, index: int, order: SwapOrder) -> Exchange | Refused:
        native = execution.native
        assert native is not None
        is_posted = native.node(index).swap(order)
        if not is_posted or native.is_over or self._is_over:
            order.end()
        order.is_posted = True
        try:
            return order.result.result(order.timeout_s + _TURN_S)
        except (TimeoutError, CancelledError):
            if not order.withdraw():
                return order.result.result()
            stuck = execution.find_stuck_call()
            what = f"{stuck.description} blocks the flow" if stuck.runner else "no turn has run"
            return Refused("busy", what, None)

    def _report_return(self, old: Runner, done: Exchange, state: State) -> None:
        report = make_report(old, done, state, is_return=True)
        self.reports.append(report)
        logger.warning(
            "node `%s` is back at its old component: the new one failed: %s",
            old.node.name,
            report.error,
            extra={"node": old.node.name, "event": "node.swap-returned"},
        )

    def end(self) -> None:
        """The last turn has run."""
        self._is_over = True
        if (order := self._order) is not None:
            order.end()

    async def finish(self, driver: LifecycleDriver) -> None:
        """Tears down the components that are kept ready, at the end of the run."""
        await self._warm.finish(driver)
