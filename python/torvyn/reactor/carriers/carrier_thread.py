"""The thread that makes a flow durable: it commits batches, settled positions and checkpoints, and
reads the backlog.

It commits whatever waits when the last commit has ended. A disk that fails degrades the flow and
never ends it: nothing is acknowledged before it is durable, and what waits is tried again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from torvyn._native import Bell, NativeFlow
from torvyn.components.connection import Backoff
from torvyn.durable import Checkpoint, StoreUnavailable
from torvyn.reactor.carriers.checkpoints import Checkpoints
from torvyn.reactor.carriers.committer import (
    SETTLE_S,
    Committer,
    Cut,
    attempt_all,
    raise_if_failed,
)
from torvyn.reactor.carriers.disk_edge import DiskEdge
from torvyn.reactor.carriers.wired_plan import WiredPlan

logger = logging.getLogger("torvyn.durable")

IDLE_S: Final = 0.25
"""The longest time between two looks at what is settled and what has expired."""
CUT_S: Final = 0.05
"""The shortest time between two checkpoints, when elements wait for them."""
SOURCE_STATE_S: Final = 5.0
"""How often the states of acknowledged sources are saved."""
FULL_PAUSE_S: Final = 0.01
"""How long a full log is left to its reader."""
FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 5.0


class CarrierThread:
    def __init__(
        self,
        wired: WiredPlan,
        edges: Sequence[DiskEdge],
        committer: Committer,
        checkpoints: Checkpoints,
        bell: Bell,
        interval_s: float,
    ) -> None:
        self._wired = wired
        self._edges = edges
        self._committer = committer
        self._checkpoints = checkpoints
        self._bell = bell
        self._interval_s = interval_s
        by_checkpoint = checkpoints.by_checkpoint
        self._plain = [edge for edge in edges if not by_checkpoint[edge.writer_segment]]
        """Edges whose batches wait for no checkpoint."""
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._cuts: dict[int, Cut] = {}
        self._requested: set[int] = set()
        self._last_cut_s: dict[int, float] = {}
        self._last_states: dict[int, Checkpoint] = {}
        self._backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
        self._retry_at_s = 0.0
        self._is_degraded = False
        self.is_final = threading.Event()
        self._wants_final = False
        self._final: set[int] = set()
        """The segments that were saved for the last time."""

    def start(self, native: NativeFlow) -> None:
        self._native = native
        self._committer.set_clock(time.time_ns() - native.now_ns)
        # At once: a source that begins at the end of a file must begin there after a kill, too.
        self._last_cut_s = dict.fromkeys(range(len(self._wired.segments)), -math.inf)
        for edge in self._edges:
            ends = (edge.wired.writer, edge.wired.reader)
            edge.attach(*(native.node(self._wired.index(end)) for end in ends))
        self._supply_readers()
        self._bell.ring()
        self._thread = threading.Thread(target=self._run, name="torvyn-carrier", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping:
            self._bell.wait(self._pause_s())
            while (left_s := self._committer.pause_left_s()) > 0 and not self._is_stopping:
                self._bell.wait(left_s)
            if self._is_stopping:
                return
            commits = self._committer.commits
            try:
                self.round()
            except StoreUnavailable as error:
                self._note_failure(error, has_committed=self._committer.commits > commits)
            except Exception:
                logger.exception("the carrier of flow `%s` failed", self._wired.plan.name)
                self._retry_at_s = time.monotonic() + 1.0
            else:
                self._note_success(self._committer.commits > commits)

    def _pause_s(self) -> float:
        """How long there is nothing to do unless the bell rings."""
        if self._is_degraded:
            return max(self._retry_at_s - time.monotonic(), 0.001)
        is_moving = any(edge.log.unsettled for edge in self._edges)
        pause_s = SETTLE_S if self._committer.has_settled or is_moving else IDLE_S
        return min(pause_s, CUT_S) if any(self._checkpoints.by_checkpoint) else pause_s

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the flow. From any thread."""
        return not self._requested and all(edge.is_idle for edge in self._edges)

    # One round

    def round(self) -> None:
        """Commits what waits, and supplies the readers. A disk that takes nothing can often still
        be read, so that the readers make room: a failure does not end the round."""
        self._committer.follow_clock()
        tidy = self._committer.tidy
        work = (self._commit_all, self._supply_readers, self._save_sources, tidy)
        failure = attempt_all(work)
        self._request_cuts()
        raise_if_failed(failure)

    def _commit_all(self) -> None:
        self._committer.collect_settled()
        if time.monotonic() < self._retry_at_s:
            # The disk has failed: what is settled still makes room.
            self._committer.commit_settled()
            return
        for edge in self._plain:
            edge.take()
        raise_if_failed(attempt_all((self._commit_plain, self._commit_cuts)))

    def _commit_plain(self) -> None:
        if not any(edge.waits for edge in self._plain):
            self._committer.commit_settled()
            return
        try:
            self._committer.commit_batches(self._plain)
        except StoreUnavailable as error:
            self._fail_if_full(error)
            self._committer.commit_settled()
            raise
        self._native.wake()

    def _fail_if_full(self, error: StoreUnavailable) -> None:
        for edge in self._plain:
            if error.reason == "limit" and edge.options.backpressure == "error" and edge.waits:
                edge.log.fail(str(error))
                edge.writer.resume()

    def _supply_readers(self) -> None:
        for edge in self._edges:
            edge.refill()
            edge.finish_if_drained()

    def _save_sources(self) -> None:
        """Saves the states of sources that wait for acknowledgements, where nothing else has one:
        they do not depend on a position."""
        for segment in self._checkpoints.source_segments:
            if time.monotonic() - self._last_cut_s[segment] < SOURCE_STATE_S:
                continue
            self._last_cut_s[segment] = time.monotonic()
            checkpoint = self._checkpoints.take(segment, ())
            if checkpoint != self._last_states.get(segment):
                self._committer.commit_batches((), checkpoint)
                self._last_states[segment] = checkpoint

    def _note_success(self, has_committed: bool) -> None:
        if self._is_degraded and has_committed:
            self._is_degraded = False
            self._backoff.reset()
            self._retry_at_s = 0.0
            logger.warning("flow `%s` is durable again", self._wired.plan.name)

    def _note_failure(self, error: StoreUnavailable, has_committed: bool) -> None:
        if error.reason == "limit":
            # Not a failure of the disk: the reader makes room.
            self._note_success(has_committed)
            self._retry_at_s = time.monotonic() + FULL_PAUSE_S
            return
        self._retry_at_s = time.monotonic() + self._backoff.next_delay_s()
        if not self._is_degraded:
            self._is_degraded = True
            name, extra = self._wired.plan.name, {"hint": error.hint}
            logger.warning("flow `%s` is degraded: %s", name, error, extra=extra)

    # Checkpoints

    def on_cut(
        self, segment: int, native_states: list[tuple[int, bytes]], finished: list[int]
    ) -> None:
        """Takes what a segment at rest hands over; called inside the turn."""
        issued = {at: self._native.issued(at) for at, _ in self._checkpoints.nodes(segment)}
        cut = Cut(segment, self._checkpoints.take(segment, native_states, finished), issued)
        for edge in self._edges:
            if edge.writer_segment == segment and edge not in self._plain:
                edge.take_all()
            # Without a state, only acknowledgements tell what an aggregator no longer holds.
            if edge.reader_segment == segment and self._checkpoints.by_checkpoint[segment]:
                cut.runs[edge.name] = edge.log.take_emitted()
        self._cuts[segment] = cut
        self._bell.ring()

    def _request_cuts(self) -> None:
        for segment, has_states in enumerate(self._checkpoints.by_checkpoint):
            if not (has_states or self._wants_final) or segment in self._requested:
                continue
            since_s = time.monotonic() - self._last_cut_s[segment]
            if self._wants_final or since_s >= self._cut_interval_s(segment):
                self._requested.add(segment)
                self._native.request_cut(segment)

    def _cut_interval_s(self, segment: int) -> float:
        """Elements that wait for a checkpoint to become durable make it come earlier."""
        is_awaited = any(edge.log.pending[0] for edge in self._written_by(segment))
        return min(CUT_S, self._interval_s) if is_awaited else self._interval_s

    def _written_by(self, segment: int) -> list[DiskEdge]:
        return [edge for edge in self._edges if edge.writer_segment == segment]

    def _commit_cuts(self) -> None:
        """A segment whose log is full must not keep those from committing that would make room."""
        segments = list(self._cuts)
        raise_if_failed(attempt_all(partial(self._commit_cut, each) for each in segments))

    def _commit_cut(self, segment: int) -> None:
        cut = self._cuts[segment]
        is_new = self._last_states.get(segment) != cut.checkpoint
        is_saved = self._checkpoints.by_checkpoint[segment] and is_new
        checkpoint = cut.checkpoint if is_saved else None
        self._committer.commit_batches(self._written_by(segment), checkpoint, cut.runs)
        self._last_states[segment] = cut.checkpoint
        for at, count in cut.issued.items():
            self._native.settle_checkpoint(at, count)
        del self._cuts[segment]
        self._last_cut_s[segment] = time.monotonic()
        if not self._wants_final:
            self._requested.discard(segment)
            self._native.release_cut(segment)
            return
        self._final.add(segment)
        if len(self._final) == len(self._wired.segments):
            self.is_final.set()

    # The end

    def request_final(self) -> None:
        """Holds all sources, and saves everything once it has come to rest; then `is_final`."""
        self._wants_final = True
        self._requested.clear()
        self._bell.ring()

    def stop(self) -> None:
        self._is_stopping = True
        self._bell.ring()
        if self._thread is not None:
            self._thread.join()

    def finish(self, is_completed: bool) -> None:
        """Commits what is left after the last turn, within one attempt per kind of work."""
        for edge in self._edges if is_completed else self._plain:
            edge.take_all()
        end = (self._commit_end,) if is_completed else ()
        work = (self._commit_plain, self._commit_cuts, *end, self._commit_acknowledged)
        if (error := attempt_all(work)) is not None:
            logger.error("flow `%s` could not store its end: %s", self._wired.plan.name, error)

    def _commit_acknowledged(self) -> None:
        """What the last commits have settled: no turn has told the readers."""
        for edge in self._edges:
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
            checkpoint = self._checkpoints.empty(segment)
            self._committer.commit_batches(self._written_by(segment), checkpoint, runs)
            for at, _ in self._checkpoints.nodes(segment):
                self._native.settle_checkpoint(at, self._native.issued(at))
