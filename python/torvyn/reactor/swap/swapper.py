"""Exchanges components of one run, one at a time.

The new component is initialized beside the old one. The native core then waits until the node is
between two elements, has the state handed over and puts the new stage in the place of the old one.
The old component stays ready until the new one has proved itself.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from torvyn._io.line_output import lines_with
from torvyn._link.plan import NodePlan
from torvyn.errors import suggestion
from torvyn.reactor.run.aggregator_checks import check_aggregators
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver
from torvyn.reactor.swap import refusals
from torvyn.reactor.swap.candidate import Candidate
from torvyn.reactor.swap.exclusive_swap import ExclusiveSwap, is_exclusive
from torvyn.reactor.swap.handover import Handover
from torvyn.reactor.swap.new_node import check_component, check_fit
from torvyn.reactor.swap.node_swap import NodeSwap, Replaced
from torvyn.reactor.swap.state_transfer import plan_transfer
from torvyn.reactor.swap.swap_order import Exchange, Refused, SwapOrder
from torvyn.reactor.swap.swap_report import State, SwapReport, Verdict
from torvyn.reactor.swap.warm_stages import WarmStages

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.run.run_swaps import RunSwaps

TIMEOUT_S: Final = 10.0
"""How long a swap may take once the new component is initialized."""
TRIAL_S: Final = 10.0
"""How long the old component stays ready."""
_TURN_S: Final = 0.5
"""How much longer a flow may take to run a turn."""
_KEPT_REPORTS: Final = 1000


class SwapKeywords(TypedDict, total=False):
    """The keywords of `Flow.swap`."""

    timeout_s: float
    """How long it waits for the calls that have begun, for `snapshot` and for `restore`. A call of
    the new component that takes longer fails the trial."""
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
        self.warm = WarmStages(execution)
        self._is_over = False
        self.reports: deque[SwapReport] = deque(maxlen=_KEPT_REPORTS)

    def swap(self, node: NodePlan, options: SwapOptions) -> SwapReport:
        """Exchanges the component of a node. Blocks; call it outside the turns."""
        with self._turn, lines_with(self._line_prefix):
            execution = self._running()
            index = self._index(execution, node.name)
            old = execution.runners[index]
            check_fit(old.node, node)
            new = Candidate(execution, old, node)
            try:
                new.create()
                state = self.check(execution, index, old, new.runner, options)
                if is_exclusive(old) or is_exclusive(new.runner):
                    self.warm.settle(node.name)
                    return ExclusiveSwap(self, execution, index, options.timeout_s).run(new, state)
                new.init()
                return self._exchange(execution, index, new.runner, options)
            except BaseException:
                new.discard()
                raise

    def _exchange(
        self, execution: Execution, index: int, new: Runner, options: SwapOptions
    ) -> SwapReport:
        """Puts an initialized component in place. If the one on trial fails meanwhile, the state is
        taken again from the one that has come back."""
        handover = Handover(self, execution, index, options.timeout_s)
        try:
            while True:
                with suppress(Replaced):
                    return NodeSwap(self, execution, index, handover, options).run(new)
        except BaseException:
            handover.let_go()
            raise

    def verdict(self, name: str) -> tuple[Verdict, float]:
        """What became of the last new component of a node, and how long its trial still takes."""
        trial = self.warm.trial(name)
        last = next((each for each in reversed(self.reports) if each.node == name), None)
        if last is not None and last.is_return:
            return "returned", 0.0
        if trial is None:
            return "proved", 0.0
        return "passed" if trial.has_taken_a_step else "waiting", trial.left_s

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
        own = {
            node.name: index
            for index, node in enumerate(execution.plan.nodes)
            if node.component.kind != "carrier"
        }
        if name in own:
            return own[name]
        known = list(own)
        hint = suggestion(name, known, f"its nodes are {', '.join(known)}")
        raise refusals.unknown_node(execution.plan.name, name, hint)

    def check(
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

    def carry_out(self, execution: Execution, index: int, order: SwapOrder) -> Exchange:
        """Has the native core exchange the stages; raises if it cannot."""
        self._order = order
        try:
            outcome = self._wait(execution, index, order)
        finally:
            self._order = None
        if isinstance(outcome, Refused):
            if isinstance(outcome.error, Replaced):
                raise outcome.error
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

    def end(self) -> None:
        """The last turn has run."""
        self._is_over = True
        if (order := self._order) is not None:
            order.end()

    async def finish(self, driver: LifecycleDriver) -> None:
        """Tears down the components that are kept ready, at the end of the run."""
        await self.warm.finish(driver)
