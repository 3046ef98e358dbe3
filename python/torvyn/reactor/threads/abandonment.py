"""Ends a run whose component does not return and so blocks the thread that drives it.

If the thread is the caller's own, the component can only be reported. If it is a worker or the
thread of a command, the run ends without the component: those who wait are notified, and another
thread tears the other components down.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from torvyn._contract.enums import FlowState
from torvyn.reactor.runners import Runner

if TYPE_CHECKING:
    from torvyn.reactor.run.execution import Execution

logger = logging.getLogger("torvyn.reactor")


class Abandonment:
    def __init__(self, execution: Execution, is_possible: bool) -> None:
        self.is_possible = is_possible
        """Whether the thread that drives is not the caller's."""
        self.is_abandoned = False
        self.has_left_thread = False
        """Another thread has replaced one that a component blocks."""
        self._execution = weakref.ref(execution)

    def abandon(
        self, error: BaseException | None, stuck: Runner | None, state: FlowState = FlowState.FAILED
    ) -> None:
        """Ends the run, in `state`, and notifies those who wait."""
        execution = self._execution()
        if execution is None or self.is_abandoned or execution.events.over.is_set():
            return
        self.is_abandoned = True
        execution.abandon(error, stuck, state)
        self.end_on_new_thread()

    def end_on_new_thread(self) -> None:
        """Tears the other components down on a new thread."""
        execution = self._execution()
        if execution is not None:
            self.has_left_thread = True
            end = execution.end_on_this_thread
            threading.Thread(target=end, name="torvyn-teardown", daemon=True).start()

    def give_up(self) -> None:
        """Stops waiting for the component that blocks the run."""
        execution = self._execution()
        if execution is None or execution.events.over.is_set():
            return
        stuck = execution.find_stuck_call()
        logger.warning(
            "%s did not return and was abandoned%s",
            stuck.description,
            f":\n{stuck.stack}" if stuck.stack else "",
            extra={"event": "node.abandoned"},
        )
        if execution.counts.ended_s is None:
            self.abandon(None, stuck.runner, FlowState.CANCELLED)
        else:
            self.end_on_new_thread()
