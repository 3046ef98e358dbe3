"""The swap of one node: its state moves while it is held, then the stages are exchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute, read_attribute
from torvyn._contract.roles import has_timer
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.first_step import FirstStepRunner
from torvyn.reactor.runners.inline_runner import InlineRunner
from torvyn.reactor.swap.handover import Handover
from torvyn.reactor.swap.swap_order import Exchange, SwapOrder
from torvyn.reactor.swap.swap_report import State, SwapReport, make_report
from torvyn.reactor.swap.trial import Trial
from torvyn.reactor.swap.warm_stages import WarmStage, can_return
from torvyn.reactor.threads.stuck_calls import runs_user_code

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.swap.swapper import SwapOptions, Swapper


class Replaced(Exception):
    """Another component has taken the node meanwhile."""


class NodeSwap:
    def __init__(
        self,
        swapper: Swapper,
        execution: Execution,
        index: int,
        handover: Handover,
        options: SwapOptions,
    ) -> None:
        self._swapper = swapper
        self._execution = execution
        self._index = index
        self._handover = handover
        self._options = options
        self._old = execution.runners[index]
        self._moved: bytes | None = None
        self._report: SwapReport | None = None

    def run(self, new: Runner) -> SwapReport:
        """Raises `Replaced` if the component of the node has changed meanwhile."""
        execution, swapper, index = self._execution, self._swapper, self._index
        state = swapper.check(execution, index, self._old, new, self._options)
        if state == "restored":
            old, native_state = self._handover.hold()
            if old is not self._old:
                raise Replaced
            # `restore` may need the time of the flow.
            execution.swaps.attach(index, new)
            self._moved = self._handover.save(old, native_state)
            self._handover.give(new, self._moved)
        swapper.carry_out(execution, index, self._order(new, state))
        assert self._report is not None
        return self._report

    def _order(self, new: Runner, state: State) -> SwapOrder:
        execution, index, options = self._execution, self._index, self._options
        context = execution.swaps.context(index)
        takes_first_step = options.trial_s > 0 and self._can_hang(new)
        runner = FirstStepRunner(new) if takes_first_step else new  # type: ignore[arg-type]

        def transfer(_: bytes | None) -> Any:
            if execution.runners[index] is not self._old:
                raise Replaced
            execution.swaps.attach(index, runner)
            return runner.native_work(context)

        def on_exchanged(done: Exchange) -> SwapOrder | None:
            assert done.old is not None
            execution.swaps.install(index, runner)
            runner.start()
            pause_ns = self._handover.pause_ns(done)
            self._report = make_report(runner, replace(done, pause_ns=pause_ns), state)
            self._swapper.reports.append(self._report)
            return self._begin_trial(runner, WarmStage(self._old, done.old), state)

        limit_s = options.trial_s + options.timeout_s
        return self._handover.order(
            transfer,
            on_exchanged,
            node=new.node,
            trial_s=limit_s if options.trial_s > 0 else 0.0,
            moves_state=state == "restored",
            discards_state=state == "empty",
        )

    def _can_hang(self, new: Runner) -> bool:
        """Whether it runs code of a user inside the turns, which nothing can end. Sources wait as
        they like, and the caller of `feed` or the loop of a flow runs its components itself."""
        return (
            isinstance(new, InlineRunner)
            and new.guest is None
            and read_attribute(new.component, "native_stage", None) is None
            and runs_user_code(new.component)
            and new.node.role != Role.SOURCE
            and not has_timer(new.component, new.node.role)
            and not self._execution.is_on_loop
            and not self._execution.swaps.is_fed
        )

    def _begin_trial(self, new: Runner, replaced: WarmStage, state: State) -> SwapOrder | None:
        """Returns the way back, to the last component that has proved itself."""
        warm_stages, options = self._swapper.warm, self._options
        moves = state == "restored"
        last_good = warm_stages.take(new.node.name)
        warm = replaced
        if last_good is not None:
            # The component that leaves was on trial itself.
            warm_stages.tear_down(replaced)
            can_restore = has_attribute(last_good.runner.component, "restore")
            given = self._moved if moves and can_restore else last_good.state
            warm = replace(last_good, state=given)
        if options.trial_s <= 0 or not can_return(warm.runner, moves_state=moves):
            warm_stages.tear_down(warm)
            return None
        trial = Trial(
            self._swapper, self._execution, self._index, new, warm, options, moves_state=moves
        )
        return trial.begin()
