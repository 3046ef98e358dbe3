"""What a swap changes in a run: its runner, its plan, its statistics, its teardown."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

from torvyn._contract.element import Context
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import BlockingDriver, LifecycleDriver, no_limit
from torvyn.reactor.swap.swapper import Swapper

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution


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
