"""What a swap changes in a run: its runner, its plan, its statistics, its teardown."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torvyn._contract.element import Context
from torvyn.reactor.runners import Runner
from torvyn.reactor.runners.lifecycle_driver import BlockingDriver, LifecycleDriver, no_limit
from torvyn.reactor.swap.swapper import Swapper

if TYPE_CHECKING:
    from torvyn.reactor.carriers.exchange.rewired_plan import Rewiring
    from torvyn.reactor.run.execution import Execution


class RunSwaps:
    """Made with the first swap of a run."""

    def __init__(self, execution: Execution) -> None:
        # A strong reference would keep a dropped run alive.
        self._execution = weakref.ref(execution)
        self.driver = BlockingDriver(no_limit, execution.loop)
        """For `init` and `teardown` outside the turns."""
        self.swapper = Swapper(execution, self)
        self.edges = {edge: at for at, edge in enumerate(execution.plan.edges)}
        """The edges that the flow has had, with their numbers in the native core."""

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

    @property
    def is_open(self) -> bool:
        """Whether the caller feeds the flow, or reads its outputs."""
        return any(not source or not target for source, _, target in self._run().wiring)

    def adopt_graph(
        self, rewiring: Rewiring, joining: Sequence[Runner], leaving: Sequence[Runner]
    ) -> None:
        """The native core has another graph. Called inside the turn. What has left keeps its
        place in the lists, which are in the order of the native core."""
        execution, new = self._run(), rewiring.new_edges
        self.edges |= {edge: at for at, edge in enumerate(new, len(self.edges))}
        execution.wiring += [(edge.source, edge.port, edge.target) for edge in new]
        execution.runners += joining
        execution.plan = execution.error_log.plan = rewiring.new.plan
        if execution.refused is not None and execution.durable is not None:
            execution.refused.plan = execution.plan
            execution.refused.epochs = execution.durable.contexts_of(
                rewiring.new, execution.context
            )
        execution.retired.update(rewiring.leaving)
        for runner in leaving:
            execution.lifecycle.leave(runner)
        for runner in joining:
            execution.lifecycle.join(runner)
        execution.counts.adopt_graph(execution.plan, [*self.edges], leaving)

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
