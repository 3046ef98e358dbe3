"""Gives a running flow a new graph: the segments that change are exchanged, the others go on.

New components are created and initialized first, while everything runs. A component that is the
same in both graphs is not touched: it keeps its state, its connections and its node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from torvyn._contract.enums import Role
from torvyn._link.plan import NodePlan, Plan
from torvyn.reactor.carriers.checkpoints import needs_checkpoints
from torvyn.reactor.carriers.edge_ends import EdgeReader
from torvyn.reactor.carriers.exchange.graph_installation import GraphInstallation
from torvyn.reactor.carriers.exchange.rewired_plan import Rewiring, changed_segments, rewire
from torvyn.reactor.carriers.wired_plan import GONE, WiredPlan, wire
from torvyn.reactor.run.component_state import has_state
from torvyn.reactor.runners import Runner
from torvyn.reactor.swap.candidate import Candidate
from torvyn.reactor.swap.exclusive_swap import is_exclusive
from torvyn.reactor.swap.new_node import check_component
from torvyn.reactor.swap.refusals import needs_restart, state_lost
from torvyn.reactor.swap.state_transfer import DISCARD, plan_transfer, unsaved

if TYPE_CHECKING:
    from torvyn.reactor.carriers.exchange.exchangeable_run import ExchangeableRun
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.swap.swapper import SwapOptions

_GRACE_S: Final = 5.0
"""How much longer than its time an exchange may take: the carrier may wait for a slow disk."""


@dataclass(frozen=True, slots=True)
class GraphReport:
    """Segments that were exchanged."""

    pauses_ms: Mapping[str, float]
    """By the names of the old segments: for how long they were at rest."""
    added: tuple[str, ...]
    """The nodes that have joined."""
    replaced: tuple[str, ...]
    removed: tuple[str, ...]


class GraphSwap:
    def __init__(
        self, execution: Execution, plan: Plan, replaced: Collection[str], options: SwapOptions
    ) -> None:
        from torvyn.reactor.carriers.exchange.exchangeable_run import ExchangeableRun

        if not isinstance(execution.durable, ExchangeableRun):
            raise needs_restart(plan.name, "it has an edge that leaves the machine")
        self._execution = execution
        self._durable: ExchangeableRun = execution.durable
        self._plan = plan
        self._options = options
        self._wired = self._durable.wired
        fresh = wire(plan)
        _, changed = changed_segments(self._wired, fresh, ())
        self._replaced = {name for name in replaced if fresh.segment(name) in changed}
        """The nodes that change inside of a segment that changes."""
        live = enumerate(self._wired.segment_of)
        self._live = {self._wired.plan.nodes[at].name: at for at, of in live if of != GONE}
        self._candidates: dict[str, Candidate] = {}

    def run(self) -> GraphReport:
        """Blocks; call it outside the turns."""
        self._check_plan()
        try:
            for node in self._plan.nodes:
                if node.name not in self._live or node.name in self._replaced:
                    self._candidates[node.name] = self._make_candidate(node)
            rewiring = self._rewire()
            self._check_leaving(rewiring)
            for candidate in self._candidates.values():
                candidate.init()
            pauses_ms = self._exchange(rewiring)
        except BaseException:
            for candidate in self._candidates.values():
                candidate.discard()
            raise
        return self._report(rewiring, pauses_ms)

    # Before

    def _check_plan(self) -> None:
        """Raises for what only a new start of the flow can change."""
        name, old, new = self._plan.name, self._wired.plan, self._plan
        if self._execution.swaps.is_open or new.head is not None or new.tail is not None:
            raise needs_restart(name, "its caller feeds or reads it")
        if new.cpu_share != old.cpu_share or any(node.cpu_share for node in new.nodes):
            raise needs_restart(name, "its nodes share the CPU by a limit")
        before = {edge.log: edge.edge for edge in self._wired.edges}
        for edge in (*self._wired.edges, *wire(new).edges):
            if edge.edge.carrier != "disk":
                raise needs_restart(name, f"the edge `{edge.log}` leaves the machine")
            if before.get(edge.log, edge.edge) != edge.edge:
                raise needs_restart(name, f"the `disk` edge `{edge.log}` has other options")

    def _make_candidate(self, node: NodePlan) -> Candidate:
        old = self._runner(node.name) if node.name in self._replaced else None
        made = Candidate(self._execution, old, node)
        made.create()
        if old is not None:
            check_component(old, made.runner)
            plan_transfer(old, made.runner, self._options.discard_state)
        return made

    def _runner(self, name: str) -> Runner:
        return self._execution.runners[self._live[name]]

    def _rewire(self) -> Rewiring:
        names = {node.name for node in self._plan.nodes}
        made = {name: each.runner for name, each in self._candidates.items()}
        now = {name: made.get(name) or self._runner(name) for name in names}
        stateful = {name for name, runner in now.items() if needs_checkpoints(runner)}

        def is_other(name: str, fresh: WiredPlan) -> bool:
            """Whether the reader of an edge is acknowledged in another way than before."""
            reader = self._runner(name).component
            if not isinstance(reader, EdgeReader):
                return False
            segment = fresh.segment(name)
            return reader.by_checkpoint != any(fresh.segment(each) == segment for each in stateful)

        edges = self._execution.swaps.edges
        return rewire(self._wired, self._plan, self._replaced, edges, is_other)

    def _check_leaving(self, rewiring: Rewiring) -> None:
        """Raises if a state would be lost, or if two components cannot exist side by side."""
        leaving = [self._execution.runners[at] for at in rewiring.leaving]
        for old in leaving:
            if old.node.name not in self._candidates and not self._options.discard_state:
                what = "its state" if has_state(old.component) else None
                if old.node.role != Role.SOURCE and what is None:
                    what = unsaved(old)
                if what is not None:
                    raise state_lost(old.node, f"{what}: the new graph has no such node", DISCARD)
        exclusive = [old for old in leaving if is_exclusive(old)]
        for new in self._candidates.values():
            if exclusive and is_exclusive(new.runner):
                what = f"node `{exclusive[0].node.name}` must end before `{new.runner.node.name}`"
                raise needs_restart(self._plan.name, f"{what} can begin")

    # The exchange

    def _exchange(self, rewiring: Rewiring) -> dict[str, float]:
        runners = {name: each.runner for name, each in self._candidates.items()}
        discards = self._options.discard_state
        installation = GraphInstallation(self._execution, rewiring, runners, discards)
        timeout_s = self._options.timeout_s
        done: Future[dict[str, float]] = self._durable.exchange(
            rewiring, timeout_s, installation
        ).result
        pauses_ms = done.result(timeout_s + _GRACE_S)
        installation.tear_down()
        return pauses_ms

    def _report(self, rewiring: Rewiring, pauses_ms: Mapping[str, float]) -> GraphReport:
        nodes = {node.name for node in self._plan.nodes}
        gone = [name for name in self._live if name not in nodes and not _is_end(name, rewiring)]
        added = [name for name in self._candidates if name not in self._live]
        return GraphReport(pauses_ms, tuple(added), tuple(sorted(self._replaced)), tuple(gone))


def _is_end(name: str, rewiring: Rewiring) -> bool:
    return rewiring.old.plan.nodes[rewiring.old.index(name)].component.kind == "carrier"
