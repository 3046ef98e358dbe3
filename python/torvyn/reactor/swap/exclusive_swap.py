"""The swap of a component that has something which only one instance can have: a port, a device, a
name at a broker.

Its node is held while the old component is torn down and the new one is initialized. If the new one
cannot be, the old one is initialized again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from torvyn._contract.inspection import read_attribute
from torvyn._native import NativeStage
from torvyn.reactor.runners import Runner
from torvyn.reactor.stages.host import run_blocking
from torvyn.reactor.swap.candidate import Candidate
from torvyn.reactor.swap.handover import Handover
from torvyn.reactor.swap.swap_order import Exchange
from torvyn.reactor.swap.swap_report import State, SwapReport, make_report

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution
    from torvyn.reactor.swap.swapper import Swapper

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
