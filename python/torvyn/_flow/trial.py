"""A new component on trial: it is watched, and the last good one takes its place again if it fails.

A trial fails when the native core counts too many errors, or when a call outside the turns does not
return. The node is then held, the last good component gets the state, and the stages are exchanged.
An inline component takes its first step on a thread, where it can hang without the flow.

The state of a component is handed over outside the turns, while its node is held and the rest of
the flow goes on: a `snapshot` or `restore` that does not return in time loses its thread, not the
flow. The components that were exchanged stay ready until the new ones have proved themselves.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from torvyn._contract.enums import Role
from torvyn._contract.inspection import describe_error, has_attribute
from torvyn._contract.roles import METHODS
from torvyn._durable.checkpoint import has_state
from torvyn._flow.lifecycle_driver import LifecycleDriver, run_blocking
from torvyn._flow.runner import Runner
from torvyn._flow.swap_checks import give_state, save_state, state_refused
from torvyn._flow.swap_order import Exchange, State, SwapOrder, make_report
from torvyn._flow.thread_runner import FirstStepRunner
from torvyn._flow.threads import Alarm, call_on_spare_thread, run_on_spare_thread, set_alarm
from torvyn.errors import DeadlineExceeded

if TYPE_CHECKING:
    from torvyn._flow.execution import Execution
    from torvyn._flow.swap import SwapOptions, Swapper
    from torvyn._native import RetiredStage

ResultT = TypeVar("ResultT")


class Handover:
    """The time that a swap has, and the state that it moves."""

    def __init__(
        self, swapper: Swapper, execution: Execution, index: int, timeout_s: float
    ) -> None:
        self._swapper = swapper
        self._execution = execution
        self._index = index
        self.timeout_s = timeout_s
        self._give_up_s = time.monotonic() + timeout_s
        self.held_s = 0.0
        """When the node was held."""

    @property
    def left_s(self) -> float:
        return max(self._give_up_s - time.monotonic(), 0.0)

    def hold(self) -> tuple[Runner, bytes | None]:
        """Waits until the node is between two elements, and holds it there. Returns its runner and
        the state that native code has saved."""
        held: list[tuple[Runner, bytes | None]] = []

        def transfer(native_state: bytes | None) -> Any:
            held.append((self._execution.runners[self._index], native_state))

        order = self.order(transfer, lambda done: None, moves_state=True)
        done = self._swapper.carry_out(self._execution, self._index, order)
        self.held_s = time.perf_counter() - done.pause_ns / 1e9
        return held[0]

    def save(self, old: Runner, native_state: bytes | None) -> bytes | None:
        what = "`snapshot` of the old component"
        return self._within(old, what, lambda: save_state(old, native_state))

    def give(self, new: Runner, state: bytes | None) -> None:
        if state is not None:
            what = "`restore` of the new component"
            self._within(new, what, lambda: give_state(new, state))

    def order(
        self,
        transfer: Callable[[bytes | None], Any],
        on_exchanged: Callable[[Exchange], SwapOrder | None],
        **options: Any,
    ) -> SwapOrder:
        """An order for the node, in the time that is left."""
        runners, swaps = self._execution.runners, self._execution.swaps
        return SwapOrder(
            **{
                "node": runners[self._index].node,
                "context": swaps.context(self._index),
                "transfer": transfer,
                "on_exchanged": on_exchanged,
                "is_idle": lambda: runners[self._index].is_idle,
                "timeout_s": self.left_s,
                **options,
            }
        )

    def pause_ns(self, done: Exchange) -> int:
        """For how long the node took no elements, up to now."""
        if not self.held_s:
            return done.pause_ns
        return int((time.perf_counter() - self.held_s) * 1e9)

    def let_go(self) -> None:
        """The swap does not take place: the node goes on."""
        if (native := self._execution.native) is not None:
            native.node(self._index).let_go()

    def _within(self, runner: Runner, what: str, call: Callable[[], ResultT]) -> ResultT:
        future = call_on_spare_thread(call)
        try:
            return future.result(self.left_s)
        except BaseException as error:
            if isinstance(error, TimeoutError) and not future.done():
                why = f"{what} did not return within {self.timeout_s:g} s"
                raise state_refused(runner.node, why) from None
            raise state_refused(runner.node, describe_error(error)) from error


logger = logging.getLogger("torvyn.reactor")

_FIRST_LOOK_S: Final = 0.002
_LONGEST_LOOK_S: Final = 0.25
_GRACE_S: Final = 1.0


class Trial:
    def __init__(
        self,
        swapper: Swapper,
        execution: Execution,
        index: int,
        new: Runner,
        warm: WarmStage,
        options: SwapOptions,
        *,
        moves_state: bool,
    ) -> None:
        self._swapper = swapper
        self._execution = weakref.ref(execution)
        self._index = index
        self._new = new
        self.warm: Final = warm
        """What takes its place again if it fails."""
        self._options = options
        self._moves_state = moves_state
        self._name: Final = new.node.name
        self._until_s = time.monotonic() + options.trial_s
        self._is_new = True
        """The native core has seen all that the new component has finished."""
        self._alarm: Alarm | None = None
        self._look_s = _FIRST_LOOK_S
        self._given = 0
        self._quiet_since_s = time.monotonic()
        self._is_stuck = self._is_over = self._is_moving = False
        self._finished_before = 0
        self._native_state: bytes | None = None
        self._note = ""

    @property
    def native_limit_s(self) -> float:
        """The native core counts errors a little longer than the trial: the watch ends it."""
        return self.left_s + self._options.timeout_s + _GRACE_S

    def begin(self) -> SwapOrder:
        """Called inside the turn that has put the new component in place; returns the way back."""
        self._finished_before = self._finished()
        self._swapper.warm.keep(self)
        self._schedule(self._look_s)
        return self._way_back()

    @property
    def left_s(self) -> float:
        return max(self._until_s - time.monotonic(), 0.0)

    @property
    def has_taken_a_step(self) -> bool:
        """Whether an element has passed the new component."""
        return self._finished() > self._finished_before

    def _finished(self) -> int:
        """How many elements the node has finished."""
        execution = self._execution()
        if execution is None or execution.native is None:
            return 0
        node = execution.native.statistics()["nodes"][self._index]
        is_source = self._new.node.role == Role.SOURCE
        counts = ("emitted",) if is_source else ("passed", "filtered", "absorbed")
        return sum(int(node[name]) for name in counts)

    # The watch, on the thread of the watchdog

    def _schedule(self, after_s: float) -> None:
        self._alarm = set_alarm(after_s, partial(_look, weakref.ref(self)))

    def stop(self) -> None:
        """Ends the watch."""
        self._is_over = True
        if self._alarm is not None:
            self._alarm.cancel()

    def look(self) -> None:
        execution, now_s = self._execution(), time.monotonic()
        if execution is None or self._is_over:
            return
        is_busy = self._is_in_a_call(now_s)
        if is_busy and now_s - self._quiet_since_s >= self._options.timeout_s:
            # Asked for again until the native core has seen it.
            self._is_stuck = True
            self._native_node(execution).fail_trial()
        first = self._new if isinstance(self._new, FirstStepRunner) else None
        is_due = now_s >= self._until_s and not (is_busy and not self._given)
        if first is not None and (first.has_taken_a_step or is_due):
            self._move_inline(execution, first)
        if is_due:
            self._swapper.warm.settle(self._name)
            return
        self._look_s = min(self._look_s * 1.5, _LONGEST_LOOK_S, self._options.timeout_s / 4)
        is_watched = first is not None or self._new.is_offloaded
        left_s = max(self._until_s - now_s, _FIRST_LOOK_S)
        self._schedule(min(self._look_s, left_s) if is_watched else left_s)

    def _is_in_a_call(self, now_s: float) -> bool:
        """Whether the component is in a call, and notes since when it has given nothing."""
        if not self._new.is_offloaded or self._new.node.role == Role.SOURCE:
            return False
        given, is_idle = self._new.port.given, self._new.is_idle  # type: ignore[attr-defined]
        if is_idle or given != self._given:
            self._quiet_since_s = now_s
        self._given = given
        return not is_idle

    # The first step

    def _move_inline(self, execution: Execution, first: FirstStepRunner) -> None:
        if self._is_moving:
            return
        self._is_moving = True
        swaps, inline = execution.swaps, first.inline
        context = swaps.context(self._index)

        def transfer(_: bytes | None) -> Any:
            if execution.runners[self._index] is not first:
                raise RuntimeError("another component has taken the node")
            return inline.native_work(context)

        def on_exchanged(done: Exchange) -> SwapOrder | None:
            assert done.old is not None
            swaps.install(self._index, inline)
            run_on_spare_thread(done.old.release)
            self._new, self._is_new = inline, False
            return None if self._is_over else self._way_back()

        order = self._handover(execution).order(
            transfer, on_exchanged, is_idle=lambda: first.is_idle, trial_s=self.native_limit_s
        )
        self._native_node(execution).swap(order)

    # The way back

    def _way_back(self) -> SwapOrder:
        """Holds the node of a component that has failed."""
        execution = self._execution()
        assert execution is not None
        return self._handover(execution).order(
            self._claim,
            self._on_held,
            node=self.warm.runner.node,
            is_idle=lambda: self._new.is_idle,
            moves_state=self._moves_state,
            is_return=True,
        )

    def _claim(self, native_state: bytes | None) -> Any:
        if self._swapper.warm.claim(self._name) is None:
            raise RuntimeError("the trial is over")
        self._native_state = native_state

    def _on_held(self, done: Exchange) -> None:
        execution = self._execution()
        assert execution is not None
        began_s = time.perf_counter() - done.pause_ns / 1e9
        is_unused = done.was_unused and self._is_new
        if not self._moves_state or (is_unused and self.warm.state is None):
            # The old component has what it needs: nothing has passed the new one.
            self._put_back(execution, done, began_s, is_restored=False)
        elif execution.swaps.is_fed:
            # The caller of `feed` gets the outputs from this turn.
            self._restore(execution, done, began_s, is_unused)
        else:
            run_on_spare_thread(partial(self._restore, execution, done, began_s, is_unused))

    def _restore(
        self, execution: Execution, done: Exchange, began_s: float, is_unused: bool
    ) -> None:
        """Gives the last good component the state of the one that has failed, or the one that this
        one was given."""
        old, state = self.warm.runner, self.warm.state
        try:
            if not is_unused and has_state(self._new.component):
                state = self._handover(execution).save(self._new, self._native_state) or state
        except BaseException as error:
            self._note = f"; its state is that from before the swap: {describe_error(error)}"
        is_restored = state is not None
        try:
            if is_restored and not old.is_offloaded:
                # The instance of a guest returns to its component, and iterators are made anew.
                self.warm.stage.release()
            self._handover(execution).give(old, state)
        except BaseException as error:
            self._note = f"; it was not given its state: {describe_error(error)}"
        self._put_back(execution, done, began_s, is_restored=is_restored)

    def _put_back(
        self, execution: Execution, held: Exchange, began_s: float, *, is_restored: bool
    ) -> None:
        old, swaps = self.warm.runner, execution.swaps
        context = swaps.context(self._index)

        def transfer(_: bytes | None) -> Any:
            is_made_anew = is_restored and not old.is_offloaded
            return old.native_work(context) if is_made_anew else self.warm.stage

        def on_exchanged(done: Exchange) -> None:
            assert done.old is not None
            self._swapper.warm.take(self._name)
            swaps.install(self._index, old)
            self._swapper.warm.tear_down(WarmStage(self._new, done.old))
            pause_ns = int((time.perf_counter() - began_s) * 1e9)
            self._report(replace(held, pause_ns=pause_ns), is_restored=is_restored)

        order = self._handover(execution).order(
            transfer,
            on_exchanged,
            node=old.node,
            is_idle=lambda: self._new.is_idle,
            is_return=True,
            is_forced=self._is_stuck,
        )
        self._native_node(execution).swap(order)

    def _report(self, done: Exchange, *, is_restored: bool) -> None:
        if self._is_stuck:
            method, limit_s = METHODS[self._new.node.role], self._options.timeout_s
            failure = DeadlineExceeded(f"`{method}` has not returned for {limit_s:g} s")
            done = replace(done, failure=failure)
        state: State = "restored" if is_restored or self._moves_state else "none"
        report = make_report(self.warm.runner, done, state, is_return=True)
        report = replace(report, error=report.error + self._note)
        self._swapper.reports.append(report)
        logger.warning(
            "node `%s` is back at its old component: the new one failed: %s",
            self._name,
            report.error,
            extra={"node": self._name, "event": "node.swap-returned"},
        )

    def _handover(self, execution: Execution) -> Handover:
        return Handover(self._swapper, execution, self._index, self._options.timeout_s)

    def _native_node(self, execution: Execution) -> Any:
        assert execution.native is not None
        return execution.native.node(self._index)


def _look(reference: weakref.ref[Trial]) -> None:
    trial = reference()
    if trial is not None:
        trial.look()


@dataclass(frozen=True, slots=True)
class WarmStage:
    """A component that was exchanged, and its stage."""

    runner: Runner
    stage: RetiredStage
    state: bytes | None = None
    """What it must be given before it takes its place again; None: it has what it needs."""


def can_return(old: Runner, *, moves_state: bool) -> bool:
    """Whether the old component can take its place again without being initialized anew."""
    is_iterated = old.node.role == Role.SOURCE and any(
        has_attribute(old.component, name) for name in ("__iter__", "__aiter__")
    )
    # Its iterator is in use on its own thread or task, and would not see the new position.
    return not (old.is_offloaded and is_iterated and moves_state)


@dataclass(slots=True)
class _Kept:
    trial: Trial
    is_claimed: bool = False
    """It is about to take its place again."""


class WarmStages:
    def __init__(self, execution: Execution) -> None:
        self._execution = weakref.ref(execution)
        self._by_node: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def keep(self, trial: Trial) -> None:
        self._by_node[trial.warm.runner.node.name] = _Kept(trial)

    def trial(self, name: str) -> Trial | None:
        """The trial of the component that has the node."""
        kept = self._by_node.get(name)
        return None if kept is None else kept.trial

    def claim(self, name: str) -> WarmStage | None:
        """The component that is to take its place again; None if the new one has proved itself."""
        with self._lock:
            kept = self._by_node.get(name)
            if kept is None:
                return None
            kept.is_claimed = True
        kept.trial.stop()
        return kept.trial.warm

    def take(self, name: str) -> WarmStage | None:
        """It is not kept here any more."""
        with self._lock:
            kept = self._by_node.pop(name, None)
        if kept is None:
            return None
        kept.trial.stop()
        return kept.trial.warm

    def settle(self, name: str) -> None:
        """The new component of a node has proved itself: the old one is torn down."""
        with self._lock:
            kept = self._by_node.get(name)
            if kept is None or kept.is_claimed:
                return
            del self._by_node[name]
        kept.trial.stop()
        execution = self._execution()
        if execution is not None and execution.native is not None:
            nodes = execution.plan.nodes
            index = max(at for at, node in enumerate(nodes) if node.name == name)
            execution.native.node(index).end_trial()
        self.tear_down(kept.trial.warm)

    def tear_down(self, warm: WarmStage) -> None:
        """On another thread: the turn goes on meanwhile."""
        run_on_spare_thread(partial(_tear_down, self._execution, warm))

    async def finish(self, driver: LifecycleDriver) -> None:
        execution = self._execution()
        for name in list(self._by_node):
            warm = self.take(name)
            if warm is not None:
                warm.stage.release()
                if execution is not None:
                    await execution.lifecycle.stop(warm.runner, driver)


def _tear_down(reference: weakref.ref[Execution], warm: WarmStage) -> None:
    warm.stage.release()
    execution = reference()
    if execution is not None:
        run_blocking(execution.lifecycle.stop(warm.runner, execution.swaps.driver))
