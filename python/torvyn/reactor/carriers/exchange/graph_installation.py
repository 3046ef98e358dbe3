"""Puts a new graph into a run: the states and checkpoints, the native core, the lists of the run.

`put_in_place` runs on the carrier thread while the segments that change are at rest and saved. If
it raises, the old graph goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from torvyn._contract.element import Context
from torvyn._contract.inspection import describe_error
from torvyn._link.plan import NodePlan
from torvyn.durable import Checkpoint, DurableStore
from torvyn.durable.state_log import chunk_parts
from torvyn.reactor.carriers.checkpoints import Checkpoints
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.edge_ends import EdgeReader, EdgeWriter
from torvyn.reactor.carriers.exchange.rewired_plan import Rewiring
from torvyn.reactor.run.run_setup import make_node_runner
from torvyn.reactor.runners import Runner
from torvyn.reactor.stages.host import run_blocking
from torvyn.reactor.swap.graph_order import GraphOrder, Joining
from torvyn.reactor.swap.refusals import graph_busy, needs_restart, not_running, state_refused
from torvyn.reactor.swap.state_transfer import give_state
from torvyn.reactor.threads.spare_threads import run_on_spare_thread

if TYPE_CHECKING:
    from torvyn._native import RetiredStage
    from torvyn.reactor.run.execution import Execution

logger = logging.getLogger("torvyn.reactor")

_RETRY_S: Final = 0.001
_TIMEOUT_S: Final = 5.0
"""How long the native core may take for what the segments at rest still have to be told."""


class GraphInstallation:
    def __init__(
        self,
        execution: Execution,
        rewiring: Rewiring,
        runners: Mapping[str, Runner],
        discards_state: bool,
    ) -> None:
        self._execution = execution
        self._rewiring = rewiring
        self._discards_state = discards_state
        self._runners = [self._runner(node, runners) for node in rewiring.joining]
        """Of the nodes that join."""
        self._stages: list[RetiredStage] = []
        self._leaving = [execution.runners[at] for at in rewiring.leaving]
        self._contexts = self._make_contexts()
        self.all_runners = [*execution.runners, *self._runners]
        self.checkpoints = Checkpoints(rewiring.new, self.all_runners)

    def _runner(self, node: NodePlan, runners: Mapping[str, Runner]) -> Runner:
        execution = self._execution
        return runners.get(node.name) or make_node_runner(execution.plan, node, execution.setup)

    def _make_contexts(self) -> list[Context]:
        """Those of the nodes that join, behind those that there are."""
        execution, rewiring = self._execution, self._rewiring
        assert execution.durable is not None
        assert execution.contexts is not None
        now = execution.contexts
        made = execution.durable.contexts_of(rewiring.new, execution.context)
        for at in rewiring.staying:
            node = rewiring.old.plan.nodes[at]
            if made[at] != now[at] and node.component.kind != "carrier":
                name = node.name
                what = f"the elements of node `{name}` would be numbered by another source"
                raise needs_restart(execution.plan.name, what)
        return [*now, *made[len(now) :]]

    def connect(self, edges: Mapping[str, DiskEdge]) -> None:
        """Gives the ends of edges their logs."""
        logs = {edge.wired.writer: edge for edge in edges.values()}
        logs |= {edge.wired.reader: edge for edge in edges.values()}
        for runner in self._runners:
            end: Any = runner.component
            if isinstance(end, (EdgeReader, EdgeWriter)):
                edge = logs[runner.node.name]
                end.log = edge.log
                if isinstance(end, EdgeReader):
                    end.rate = float(edge.wired.edge.drain_rate or 0)
                    segment = self._rewiring.new.segment(runner.node.name)
                    end.by_checkpoint = self.checkpoints.by_checkpoint[segment]

    def put_in_place(
        self, store: DurableStore, states: Mapping[str, bytes], adopt: Callable[[], None]
    ) -> None:
        """`adopt` tells the durable run, inside the turn."""
        rewiring = self._rewiring
        old = {rewiring.old.segments[at] for at in rewiring.old_segments}
        old |= {rewiring.new.segments[at] for at in rewiring.new_segments}
        before = [each for name in old if (each := store.checkpoint(name))]
        if self._discards_state:
            new = {runner.node.name for runner in self._runners}
            states = {name: state for name, state in states.items() if name not in new}
        order = self._order(states, adopt)
        parts = {node: chunk_parts(state) for node, state in states.items()}
        store.replace_checkpoints(old, self.checkpoints.arrange(parts))
        try:
            self._carry_out(order)
        except BaseException:
            restored = [Checkpoint.whole(each.segment, each.shape, each.parts) for each in before]
            store.replace_checkpoints(old, restored)
            raise

    def _order(self, states: Mapping[str, bytes], adopt: Callable[[], None]) -> GraphOrder:
        rewiring, by_checkpoint = self._rewiring, self.checkpoints.by_checkpoint
        first, new = len(rewiring.old.plan.nodes), rewiring.new
        joining = []
        assert self._execution.native is not None
        contexts = self._contexts
        for at, runner in enumerate(self._runners, first):
            runner.attach(self._execution.native.node(at))
            self._restore(runner, states)
            work = runner.native_work(contexts[at])
            is_saved = by_checkpoint[new.segment_of[at]]
            joining.append(Joining(runner.node, work, contexts[at], is_saved))
        saved = [*filter(partial(self._is_saved, states), rewiring.leaving)]
        settled = [at for at in rewiring.staying if by_checkpoint[new.segment_of[at]]]
        return GraphOrder(
            joining,
            rewiring.leaving,
            saved,
            rewiring.successors,
            rewiring.staying,
            settled,
            rewiring.edges,
            rewiring.order,
            [max(of, 0) for of in new.segment_of],
            len(new.segments),
            partial(self._install, adopt),
        )

    def _is_saved(self, states: Mapping[str, bytes], at: int) -> bool:
        return self._discards_state or self._rewiring.old.plan.nodes[at].name in states

    def _restore(self, runner: Runner, states: Mapping[str, bytes]) -> None:
        if (state := states.get(runner.node.name)) is None:
            return
        try:
            give_state(runner, state)
        except Exception as error:
            raise state_refused(runner.node, describe_error(error)) from error

    def _carry_out(self, order: GraphOrder) -> None:
        """Has the next turn exchange the graph, and waits for it."""
        native, flow = self._execution.native, self._execution.plan.name
        assert native is not None
        until_s = time.monotonic() + _TIMEOUT_S
        native.change_graph(order)
        while True:
            try:
                stages = order.result.result(_RETRY_S)
                break
            except TimeoutError:
                is_late = time.monotonic() > until_s or native.is_over
            what = native.withdraw_graph_change() if is_late else None
            if what is not None:
                raise graph_busy(flow, what, _TIMEOUT_S)
            native.retry_graph_change()
        if stages is None:
            raise not_running(flow)
        self._stages = stages

    # Inside the turn

    def _install(self, adopt: Callable[[], None]) -> None:
        """The native core has the new graph."""
        self._execution.contexts = self._contexts
        # A swap of a component exchanges its runner there.
        self.checkpoints.runners = self._execution.runners
        self._execution.swaps.adopt_graph(self._rewiring, self._runners, self._leaving)
        adopt()
        for runner in self._leaving:
            runner.detach()
        for runner in self._runners:
            runner.start()

    # Afterwards

    def tear_down(self) -> None:
        """Tears down the components that have left, on another thread."""
        for runner, stage in zip(self._leaving, self._stages, strict=True):
            run_on_spare_thread(partial(_tear_down, self._execution, runner, stage))


def _tear_down(execution: Execution, runner: Runner, stage: RetiredStage) -> None:
    stage.release()
    run_blocking(execution.lifecycle.stop(runner, execution.swaps.driver))
