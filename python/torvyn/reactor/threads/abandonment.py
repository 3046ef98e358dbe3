"""Abandonment: how a run ends when a component keeps the thread that drives it.

The thread is the caller's own, and then all that can be done is to report it; or it is ours (a
worker, the thread of a command), and then the run ends for those who wait, the other components are
torn down on another thread, and the one that is stuck stays behind.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from torvyn.reactor.runners import Runner

if TYPE_CHECKING:
    from torvyn.reactor.execution import Execution

logger = logging.getLogger("torvyn.reactor")


class Abandonment:
    def __init__(self, execution: Execution, is_possible: bool) -> None:
        self.is_possible = is_possible
        """The thread that drives is ours."""
        self.is_abandoned = False
        self.has_left_thread = False
        """Another thread has taken over from one that a component keeps."""
        self._execution = weakref.ref(execution)

    def abandon(
        self, error: BaseException | None, stuck: Runner | None, state: str = "failed"
    ) -> None:
        """Ends the run for those who wait, in `state`."""
        execution = self._execution()
        if execution is None or self.is_abandoned or execution.over.is_set():
            return
        self.is_abandoned = True
        execution.abandon(error, stuck, state)
        self.end_elsewhere()

    def end_elsewhere(self) -> None:
        """Another thread tears down what is left."""
        execution = self._execution()
        if execution is not None:
            self.has_left_thread = True
            end = execution.end_on_this_thread
            threading.Thread(target=end, name="torvyn-teardown", daemon=True).start()

    def give_up(self) -> None:
        """Nobody wants to wait any longer for the component that keeps the run."""
        execution = self._execution()
        if execution is None or execution.over.is_set():
            return
        stuck = execution.find_stuck()
        logger.warning(
            "%s has not returned and was abandoned%s",
            stuck.place,
            f":\n{stuck.stack}" if stuck.stack else "",
            extra={"event": "node.abandoned"},
        )
        if execution.facts.over_s is None:
            self.abandon(None, stuck.runner, "cancelled")
        else:
            self.end_elsewhere()
