"""The components that were exchanged and stay ready, until the new ones have proved themselves."""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from torvyn.contract.enums import Role
from torvyn.contract.inspection import has_attribute
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver
from torvyn.reactor.stages.host import run_blocking
from torvyn.reactor.threads.spare_threads import run_on_spare_thread
from torvyn.reactor.threads.watchdog import Alarm, set_alarm

if TYPE_CHECKING:
    from torvyn._native import RetiredStage
    from torvyn.reactor.run.execution import Execution


@dataclass(frozen=True, slots=True)
class WarmStage:
    """A component that was exchanged, and its stage."""

    runner: Runner
    stage: RetiredStage


def can_return(old: Runner, new: Runner, moves_state: bool) -> bool:
    """Whether the old component can take its place again without being initialized anew."""
    is_inline = old.node.run == "inline"
    if is_inline != (new.node.run == "inline"):
        return False
    is_iterated = old.node.role == Role.SOURCE and any(
        has_attribute(old.component, name) for name in ("__iter__", "__aiter__")
    )
    # Its iterator is in use on its own thread or task, and would not see the new position.
    return is_inline or not (is_iterated and moves_state)


class WarmStages:
    def __init__(self, execution: Execution) -> None:
        self._execution = weakref.ref(execution)
        self._by_node: dict[str, tuple[WarmStage, Alarm]] = {}

    def keep(self, warm: WarmStage, trial_s: float) -> None:
        name = warm.runner.node.name
        alarm = set_alarm(trial_s, partial(_settle, weakref.ref(self), name))
        self._by_node[name] = (warm, alarm)

    def take(self, runner: Runner) -> None:
        """It takes its place again."""
        kept = self._by_node.pop(runner.node.name, None)
        if kept is not None:
            kept[1].cancel()

    def settle(self, name: str) -> None:
        """The new component of a node has proved itself: the old one is torn down."""
        kept = self._by_node.pop(name, None)
        execution = self._execution()
        if kept is None:
            return
        warm, alarm = kept
        alarm.cancel()
        if execution is not None and execution.native is not None:
            nodes = execution.plan.nodes
            index = max(at for at, node in enumerate(nodes) if node.name == name)
            execution.native.node(index).end_trial()
        self.tear_down(warm)

    def tear_down(self, warm: WarmStage) -> None:
        """On another thread: the turn goes on meanwhile."""
        run_on_spare_thread(partial(_tear_down, self._execution, warm))

    async def finish(self, driver: LifecycleDriver) -> None:
        execution = self._execution()
        while self._by_node:
            with suppress(KeyError):
                warm, alarm = self._by_node.popitem()[1]
                alarm.cancel()
                warm.stage.release()
                if execution is not None:
                    await execution.lifecycle.stop(warm.runner, driver)


def _settle(reference: weakref.ref[WarmStages], name: str) -> None:
    stages = reference()
    if stages is not None:
        stages.settle(name)


def _tear_down(reference: weakref.ref[Execution], warm: WarmStage) -> None:
    warm.stage.release()
    execution = reference()
    if execution is not None:
        run_blocking(execution.lifecycle.stop(warm.runner, execution.swaps.driver))
