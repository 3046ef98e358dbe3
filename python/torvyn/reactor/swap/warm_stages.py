"""The components that were exchanged and stay ready, until the new ones have proved themselves."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from torvyn._contract.enums import Role
from torvyn._contract.inspection import has_attribute
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver
from torvyn.reactor.stages.host import run_blocking
from torvyn.reactor.threads.spare_threads import run_on_spare_thread

if TYPE_CHECKING:
    from torvyn._native import RetiredStage
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.swap.trial import Trial


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
