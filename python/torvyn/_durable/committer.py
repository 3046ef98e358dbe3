"""The thread that makes a flow durable: it commits batches, settled positions and checkpoints, and
reads the backlog.

It commits whatever waits when the last commit has ended, and what is left after the last turn. A
disk that fails degrades the flow and never ends it: nothing is acknowledged before it is durable,
and what waits is tried again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from torvyn._durable.checkpoint import Checkpoints
from torvyn._durable.disk.backend import SETTLE_S, Committer, Cut, attempt_all, raise_if_failed
from torvyn._durable.disk.states import StateGoneError
from torvyn._durable.outage import FIRST_RETRY_S, LONGEST_RETRY_S, Outage
from torvyn._durable.segments import WiredPlan
from torvyn._durable.state_log import Checkpoint
from torvyn._io.backoff import Backoff
from torvyn._io.restart import keep_running
from torvyn._native import Bell, NativeFlow
from torvyn.errors import FlowError, StoreUnavailable

if TYPE_CHECKING:
    from torvyn._durable.dead_letters import ReturnedLetters
    from torvyn._durable.nats.backend import NatsCommitter

CarriedEdge: TypeAlias = Any
"""A `DiskEdge`, or an end of a `nats` edge, which has the same methods."""

logger = logging.getLogger("torvyn.durable")

IDLE_S: Final = 0.25
"""The longest time between two looks at what is settled and what has expired."""
SOURCE_STATE_S: Final = 5.0
"""How often the states of acknowledged sources are saved."""


class CarrierThread:
    def __init__(
        self,
        wired: WiredPlan,
        edges: Sequence[CarriedEdge],
        committer: Committer | NatsCommitter,
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
        self._has_cuts = any(by_checkpoint)
        self._plain = [
            edge
            for edge in edges
            if edge.writer_segment is not None and not by_checkpoint[edge.writer_segment]
        ]
        """Edges whose batches wait for no checkpoint."""
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._cuts: dict[int, Cut] = {}
        self._requested: set[int] = set()
        self._last_cut_s: dict[int, float] = {}
        self._outage = Outage(wired.plan.name, committer.longest_retry_s)
        self.returned: ReturnedLetters | None = None
        """The dead letters that go back to their nodes."""
        self.failure: FlowError | None = None
        self.is_final = threading.Event()
        self.is_abandoned = threading.Event()
        """Whether nobody waits any more for the end to be stored."""
        self._wants_final = False
        self._final: set[int] = set()
        """The segments that were saved for the last time."""
        self.unstored: StoreUnavailable | None = None
        """Why the end of a flow that ended in order is not stored, though it was waited for."""

    def start(self, native: NativeFlow) -> None:
        self._native = native
        self._committer.set_clock(time.time_ns() - native.now_ns)
        # At once: a source that begins at the end of a file must begin there after a kill, too.
        self._last_cut_s = dict.fromkeys(range(len(self._wired.segments)), -math.inf)
        for edge in self._edges:
            edge.attach(native, self._wired)
        # A disk that fails is found again by the first round.
        attempt_all([self._committer.begin])
        self._supply_readers()
        self._bell.ring()
        self._thread = threading.Thread(target=self._run, name="torvyn-carrier", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
        keep_running(self._commit_rounds, self._stopping.wait, self._note_failure, backoff)

    def _note_failure(self, reason: str) -> None:
        text = "flow `%s` stores nothing for now: %s"
        logger.error(text, self._wired.plan.name, reason, extra={"event": "carrier.failed"})

    def _commit_rounds(self) -> None:
        while self._wait_for_work():
            commits = self._committer.commits
            try:
                self.round()
            except StoreUnavailable as error:
                self._outage.note_failure(error, has_committed=self._committer.commits > commits)
            except FlowError as error:
                self._fail(error)
                return
            else:
                self._outage.note_success(self._committer.commits > commits)

    def _wait_for_work(self) -> bool:
        """Returns False when the thread is to stop."""
        if not self._stopping.is_set():
            self._bell.wait(self._pause_s())
        if self._committer.nap_s and not self._stopping.is_set():
            time.sleep(self._committer.nap_s)
        while (left_s := self._committer.pause_left_s()) > 0 and not self._stopping.is_set():
            self._bell.wait(left_s)
        return not self._stopping.is_set()

    def _fail(self, error: FlowError) -> None:
        """The flow cannot go on: another process has taken its place."""
        self.failure = error
        for edge in self._edges:
            edge.fail(str(error))
        self.is_final.set()

    def _pause_s(self) -> float:
        """How long there is nothing to do unless the bell rings."""
        if self._outage.is_degraded:
            return max(self._outage.retry_at_s - time.monotonic(), 0.001)
        is_moving = any(edge.log.unsettled for edge in self._edges)
        pause_s = SETTLE_S if self._committer.has_settled or is_moving else IDLE_S
        pause_s = min(pause_s, self._committer.retry_in_s)
        return min(pause_s, self._cut_pause_s()) if self._has_cuts else pause_s

    def _cut_pause_s(self) -> float:
        """The time until the next checkpoint that elements wait for."""
        now_s = time.monotonic()
        due_s = [
            self._last_cut_s[segment] + self._cut_interval_s(segment) - now_s
            for segment, has_cuts in enumerate(self._checkpoints.by_checkpoint)
            if has_cuts and segment not in self._requested
        ]
        return max(min(due_s, default=IDLE_S), 0.001)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the flow. From any thread."""
        return not self._requested and all(edge.is_idle for edge in self._edges)

    # One round

    def round(self) -> None:
        """Commits what waits, and supplies the readers. A disk that takes nothing can often still
        be read, so that the readers make room: a failure does not end the round."""
        self._committer.follow_clock()
        if self.returned is not None:
            self.returned.advance(self._edges)
        tidy = self._committer.tidy
        work = (self._commit_all, self._supply_readers, self._save_sources, tidy)
        failure = attempt_all(work)
        self._request_cuts()
        raise_if_failed(failure)

    def _commit_all(self) -> None:
        self._committer.collect_settled()
        if time.monotonic() < self._outage.retry_at_s:
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
                edge.fail(str(error))

    def _supply_readers(self) -> None:
        for edge in self._edges:
            edge.refill()
            if self.returned is None or not self.returned.is_under_way:
                edge.finish_if_drained()

    def _save_sources(self) -> None:
        """Saves the states of sources that wait for acknowledgements, where nothing else has one:
        they do not depend on a position."""
        for segment in self._checkpoints.source_segments:
            if time.monotonic() - self._last_cut_s[segment] < SOURCE_STATE_S:
                continue
            self._last_cut_s[segment] = time.monotonic()
            checkpoint = self._checkpoints.take(segment, ())
            if checkpoint.is_new:
                self._save_source(segment, checkpoint)

    def _save_source(self, segment: int, checkpoint: Checkpoint) -> None:
        log = self._checkpoints.logs[segment]
        try:
            self._committer.commit_batches((), checkpoint)
        except StateGoneError:
            log.forget()
        else:
            log.confirm()

    # Checkpoints

    def on_cut(
        self, segment: int, native_states: list[tuple[int, bytes]], finished: list[int]
    ) -> None:
        """Takes what a segment at rest hands over; called inside the turn."""
        issued = {at: self._native.issued(at) for at, _ in self._checkpoints.nodes(segment)}
        checkpoint = self._checkpoints.take(segment, native_states, finished)
        cut = Cut(segment, checkpoint, issued, native=native_states, finished=finished)
        for edge in self._edges:
            if edge.writer_segment == segment and edge not in self._plain:
                edge.take_all()
            # Without a state, only acknowledgements tell what an aggregator no longer holds.
            if edge.reader_segment == segment and self._checkpoints.by_checkpoint[segment]:
                cut.runs[edge.name] = edge.log.take_emitted()
        if (waiting := self._cuts.get(segment)) is not None:
            # It could not be committed: what it had read is read by this one.
            for name, runs in waiting.runs.items():
                cut.runs[name] = [*runs, *cut.runs.get(name, ())]
        self._cuts[segment] = cut
        self._bell.ring()

    def _request_cuts(self) -> None:
        for segment, has_states in enumerate(self._checkpoints.by_checkpoint):
            if not (has_states or self._wants_final) or segment in self._requested:
                continue
            if segment in self._cuts:
                # Its sources are held, so that a later cut would be the same.
                continue
            since_s = time.monotonic() - self._last_cut_s[segment]
            if self._wants_final or since_s >= self._cut_interval_s(segment):
                self._requested.add(segment)
                self._native.request_cut(segment)

    def _cut_interval_s(self, segment: int) -> float:
        """Elements that wait for a checkpoint to become durable make it come earlier."""
        if any(edge.log.pending[0] or edge.waits for edge in self._written_by(segment)):
            return min(self._committer.cut_s, self._interval_s)
        if any(edge.log.unsettled for edge in self._edges if edge.reader_segment == segment):
            return min(self._committer.read_cut_s, self._interval_s)
        return self._interval_s

    def _written_by(self, segment: int) -> list[CarriedEdge]:
        return [edge for edge in self._edges if edge.writer_segment == segment]

    def _commit_cuts(self) -> None:
        """A segment whose log is full must not keep those from committing that would make room."""
        segments = list(self._cuts)
        raise_if_failed(attempt_all(partial(self._commit_cut, each) for each in segments))

    def _commit_cut(self, segment: int) -> None:
        cut = self._cuts[segment]
        is_saved = self._checkpoints.by_checkpoint[segment] and cut.checkpoint.is_new
        edges = self._written_by(segment)
        try:
            self._committer.commit_cut(cut, edges, cut.checkpoint if is_saved else None)
        except StateGoneError:
            self._retake(cut)
            self._committer.commit_cut(cut, edges, cut.checkpoint)
        if is_saved:
            self._checkpoints.logs[segment].confirm()
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

    def _retake(self, cut: Cut) -> None:
        """What the cut continues is gone, because the store was damaged. The segment is still at
        rest."""
        name = self._wired.segments[cut.segment]
        logger.warning("the state of segment `%s` is saved as a whole again", name)
        self._checkpoints.logs[cut.segment].forget()
        cut.checkpoint = self._checkpoints.take(cut.segment, cut.native, cut.finished)

    # The end

    def request_final(self) -> None:
        """Holds all sources, and saves everything once it has come to rest; then `is_final`."""
        self._wants_final = True
        self._requested.clear()
        self._bell.ring()

    def stop(self) -> None:
        self._stopping.set()
        self._bell.ring()
        if self._thread is not None:
            self._thread.join()

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
