"""Exchanges components of one run, one at a time.

The new component is created and initialized beside the old one. The node is held while its state
moves; the native core then waits until it is between two elements, and puts the new stage in the
place of the old one. The old component stays ready until the new one has proved itself.

A component that has something which only one instance can have (a port, a device, a name at a
broker) is torn down before the new one is initialized, while its node is held. If the new one
cannot be, the old one is initialized again.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

from torvyn._contract.element import Context
from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute, read_attribute
from torvyn._contract.roles import has_timer
from torvyn._flow import swap_checks
from torvyn._flow.async_runner import AsyncRunner
from torvyn._flow.checks import check_aggregators
from torvyn._flow.failures import init_failure, init_timeout
from torvyn._flow.lifecycle import connect_request, make_node_runner, make_successor
from torvyn._flow.lifecycle_driver import (
    BlockingDriver,
    LifecycleDriver,
    LimitExceeded,
    WrappedError,
    no_limit,
    run_blocking,
)
from torvyn._flow.runner import InlineRunner, Runner
from torvyn._flow.stuck_calls import runs_user_code
from torvyn._flow.swap_checks import (
    check_component,
    check_fit,
    check_saved,
    no_memory,
    plan_transfer,
)
from torvyn._flow.swap_order import (
    Exchange,
    Refused,
    State,
    SwapOrder,
    SwapReport,
    Verdict,
    make_report,
)
from torvyn._flow.thread_runner import FirstStepRunner
from torvyn._flow.threads import call_on_spare_thread, run_on_spare_thread
from torvyn._flow.trial import Handover, Trial, WarmStage, WarmStages, can_return
from torvyn._io.background_loop import start_loop
from torvyn._io.line_output import lines_with
from torvyn._io.resources import read_resources, resident_bytes
from torvyn._link.plan import NodePlan
from torvyn._native import NativeStage
from torvyn.errors import suggestion

if TYPE_CHECKING:
    from torvyn._flow.execution import Execution


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


class RunSwaps:
    """Made with the first swap of a run."""

    def __init__(self, execution: Execution) -> None:
        # A strong reference would keep a dropped run alive.
        self._execution = weakref.ref(execution)
        self.driver = BlockingDriver(no_limit, execution.loop)
        """For `init` and `teardown` outside the turns."""
        self.swapper = Swapper(execution, self)

    def context(self, index: int) -> Context:
        """The context of a node."""
        execution = self._run()
        return execution.context if execution.contexts is None else execution.contexts[index]

    def install(self, index: int, runner: Runner) -> None:
        """The runner has taken the place of another one. Called inside the turn."""
        execution = self._run()
        old, execution.runners[index] = execution.runners[index], runner
        execution.lifecycle.replace(old, runner)
        nodes = list(execution.plan.nodes)
        nodes[index] = runner.node
        execution.plan = replace(execution.plan, nodes=tuple(nodes))
        execution.counts.succeed(execution.plan, old, runner)
        old.detach()
        self.attach(index, runner)

    @property
    def is_fed(self) -> bool:
        """Whether the caller feeds the flow: its outputs leave in the same turn."""
        return any(not source for source, _, _ in self._run().wiring)

    def attach(self, index: int, runner: Runner) -> None:
        """Gives the component the handle of its node."""
        native = self._run().native
        assert native is not None
        runner.attach(native.node(index))

    def _run(self) -> Execution:
        execution = self._execution()
        assert execution is not None
        return execution

    async def finish(self, driver: LifecycleDriver) -> None:
        """Tears down what is kept ready. The last turn has run."""
        self.swapper.end()
        await self.swapper.finish(driver)


_SPARE_BYTES: Final = 8 << 20
"""What a second component may need beside the memory of a guest."""
_GRACE_S: Final = 1.0


class Candidate:
    runner: Runner

    def __init__(self, execution: Execution, old: Runner, node: NodePlan) -> None:
        check_memory(old, read_resources().limits.memory_bytes, resident_bytes())
        self._execution = execution
        self._old = old
        self._node = node
        self._init: Future[None] | None = None

    def create(self) -> None:
        """Makes the component. Like `init`, it runs on a thread of its own: one that never returns
        blocks nothing else."""
        execution, node = self._execution, self._node
        made = call_on_spare_thread(
            partial(make_node_runner, execution.plan, node, execution.setup)
        )
        try:
            self.runner = made.result(self._limit_s)
        except TimeoutError:
            if made.done():
                raise
            raise init_timeout(execution.plan, node) from None
        connect_request([*execution.runners, self.runner])
        make_successor(self.runner.component)
        execution.counts.prepare_successor(self._old, self.runner)

    def init(self) -> None:
        if isinstance(self.runner, AsyncRunner) and not self._execution.is_on_loop:
            # The old component may run on the loop of all flows, which this one could block.
            self.runner.owned_loop = start_loop()
        self._init = call_on_spare_thread(self._run_init)
        plan = self._execution.plan
        try:
            self._init.result(self._limit_s)
        except (LimitExceeded, TimeoutError):
            raise init_timeout(plan, self._node) from None
        except BaseException as error:
            cause = error.error if isinstance(error, WrappedError) else error
            failed = init_failure(plan, self._node, cause)
            raise failed from failed.__cause__

    @property
    def _limit_s(self) -> float | None:
        limit_s = self._node.init_timeout_s
        return None if limit_s is None else limit_s + _GRACE_S

    def _run_init(self) -> None:
        run_blocking(self.runner.init(self._execution.swaps.driver))

    def discard(self) -> None:
        """Tears it down when its `init` has returned."""
        if self._init is not None:
            self._init.add_done_callback(lambda _: run_on_spare_thread(self._stop))

    def _stop(self) -> None:
        execution = self._execution
        run_blocking(execution.lifecycle.stop(self.runner, execution.swaps.driver))


def check_memory(old: Runner, limit_bytes: int | None, used_bytes: int | None) -> None:
    """Raises if the control group of the process has no room for two instances."""
    if limit_bytes is None or used_bytes is None:
        return
    needed_bytes = _SPARE_BYTES + (old.guest.health.memory_bytes if old.guest else 0)
    if used_bytes + needed_bytes > limit_bytes:
        raise no_memory(old.node, needed_bytes, limit_bytes - used_bytes)


logger = logging.getLogger("torvyn.reactor")


def is_exclusive(runner: Runner) -> bool:
    return read_attribute(runner.component, "is_exclusive", False) is True


class ExclusiveSwap:
    def __init__(
        self, swapper: Swapper, execution: Execution, index: int, timeout_s: float
    ) -> None:
        self._swapper = swapper
        self._execution = execution
        self._index = index
        self._timeout_s = timeout_s
        self._state: bytes | None = None
        self._began_s = 0.0

    def run(self, new: Candidate, state: State) -> SwapReport:
        old = self._execution.runners[self._index]
        self._hold(old, state)
        try:
            done = self._put(new)
        except BaseException:
            new.discard()
            self._return_to(old)
            raise
        pause_ns = int((time.perf_counter() - self._began_s) * 1e9)
        report = make_report(new.runner, replace(done, pause_ns=pause_ns), state)
        self._swapper.reports.append(report)
        return report

    def _hold(self, old: Runner, state: State) -> None:
        """Takes the old component out of its node, which waits from then on."""
        handover, moves = self._handover(), state == "restored"
        try:
            if moves:
                self._state = handover.save(*handover.hold())
            order = handover.order(
                lambda _: NativeStage("null", {}),
                lambda done: None,
                moves_state=moves,
                discards_state=state == "empty",
                keeps_hold=True,
            )
            held = self._swapper.carry_out(self._execution, self._index, order)
        except BaseException:
            handover.let_go()
            raise
        self._began_s = time.perf_counter() - handover.pause_ns(held) / 1e9
        assert held.old is not None
        held.old.release()
        self._stop(old)

    def _put(self, candidate: Candidate) -> Exchange:
        """Initializes a component and gives it the node."""
        candidate.init()
        runner, swaps = candidate.runner, self._execution.swaps
        handover = self._handover()
        handover.give(runner, self._state)
        context = swaps.context(self._index)

        def on_exchanged(done: Exchange) -> None:
            swaps.install(self._index, runner)
            runner.start()

        order = handover.order(
            lambda _: runner.native_work(context), on_exchanged, node=runner.node
        )
        return self._swapper.carry_out(self._execution, self._index, order)

    def _return_to(self, old: Runner) -> None:
        """Starts the old component again. Without one the flow cannot go on."""
        again = Candidate(self._execution, old, old.node)
        try:
            again.create()
            self._put(again)
        except BaseException as error:
            again.discard()
            if not self._execution.events.over.is_set():
                logger.error(
                    "node `%s` has no component any more: %s", old.node.name, error, exc_info=True
                )
                self._execution.error = error
                self._execution.cancel()

    def _handover(self) -> Handover:
        return Handover(self._swapper, self._execution, self._index, self._timeout_s)

    def _stop(self, runner: Runner) -> None:
        execution = self._execution
        run_blocking(execution.lifecycle.stop(runner, execution.swaps.driver))


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
            raise swap_checks.not_running("" if execution is None else execution.plan.name)
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
        raise swap_checks.unknown_node(execution.plan.name, name, hint)

    def check(
        self, execution: Execution, index: int, old: Runner, new: Runner, options: SwapOptions
    ) -> State:
        check_component(old, new)
        state = plan_transfer(old, new, options.discard_state)
        runners = [*execution.runners[:index], new, *execution.runners[index + 1 :]]
        if execution.durable is None:
            check_aggregators(execution.plan, runners)
        else:
            check_saved(old, new)
            check_aggregators(execution.plan, runners, execution.durable.saved_nodes)
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
            raise swap_checks.refusal(execution.plan.name, node, outcome, order.timeout_s)
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
