"""The end of a run: what is left is committed after the last turn."""

from __future__ import annotations

import logging
import math
import time
from functools import partial

from torvyn.durable import StoreUnavailable
from torvyn.errors import FlowError
from torvyn.reactor.carriers.carrier_thread import CarrierThread
from torvyn.reactor.carriers.committer import Cut, attempt_all

logger = logging.getLogger("torvyn.durable")


class EndingCarrier(CarrierThread):
    """Commits what is left, once the thread has stopped."""

    unstored: StoreUnavailable | None = None
    """Why the end of a flow that ended in order is not stored, though it was waited for."""

    def finish(self, is_completed: bool, limit_s: float | None = None) -> None:
        """Commits what is left after the last turn, within one attempt per kind of work. The end
        of a flow on a broker is tried again until it is stored, the flow is cancelled, or
        `limit_s` have passed."""
        end_s = math.inf if limit_s is None else time.monotonic() + limit_s
        for edge in self._edges if is_completed else self._plain:
            edge.take_all()
        end = (self._commit_end,) if is_completed else ()
        over = partial(self._committer.commit_over, is_completed)
        work = (self._commit_plain, self._commit_cuts, *end, self._commit_acknowledged, over)
        try:
            error = attempt_all(work)
            while error is not None and is_completed and self._committer.is_patient:
                self._outage.note_failure(error, has_committed=False)
                pause_s = min(self._outage.retry_at_s, end_s) - time.monotonic()
                if self.is_abandoned.wait(max(pause_s, 0.0)) or time.monotonic() >= end_s:
                    self.unstored = error
                    break
                error = attempt_all(work)
        except FlowError as failure:
            self.failure = failure
            return
        if error is not None:
            logger.error("flow `%s` could not store its end: %s", self._wired.plan.name, error)

    def _commit_acknowledged(self) -> None:
        """What the last commits have settled: no turn has told the readers."""
        for edge in self._edges:
            if edge.reader_segment is not None:
                self._native.take_acknowledgements(self._wired.index(edge.wired.reader))
        self._committer.collect_settled()
        self._committer.commit_settled(at_once=True)

    def _commit_end(self) -> None:
        for segment, has_states in enumerate(self._checkpoints.by_checkpoint):
            if not has_states:
                continue
            runs = {
                edge.name: edge.log.take_emitted()
                for edge in self._edges
                if edge.reader_segment == segment
            }
            cut = Cut(segment, self._checkpoints.empty(segment), {}, runs)
            self._committer.commit_end(cut, self._written_by(segment))
            for at, _ in self._checkpoints.nodes(segment):
                self._native.settle_checkpoint(at, self._native.issued(at))
