"""A flow on a cluster: starts its groups, watches them, and ends when all of them have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from torvyn._contract.enums import FlowState
from torvyn.cluster.placement import Placement
from torvyn.cluster.ray.failures import deadline_exceeded
from torvyn.cluster.ray.group_replica import GroupReplica
from torvyn.cluster.ray.job import GroupJob
from torvyn.cluster.ray.merged_statistics import merge_statistics
from torvyn.errors import ClusterError
from torvyn.reactor import Statistics

_RETRY_S: Final = 0.1
"""A replica that could not be reached is asked again after this time."""
_POLL_S: Final = 1.0
_GRACE_S: Final = 5.0
"""How long groups may take to end after they were told to."""


@dataclass(frozen=True, slots=True)
class ClusterRunEnd:
    """How a flow on a cluster ended."""

    state: FlowState
    statistics: Statistics
    error: BaseException | None = None
    restarts: int = 0
    """How often processes of groups were started again."""


class ClusterRun:
    """One run. `run` blocks; the other methods may be called meanwhile, from other threads."""

    def __init__(
        self,
        ray: ModuleType,
        placement: Placement,
        jobs: Sequence[GroupJob],
        on_completed: Callable[[], None] | None = None,
    ) -> None:
        self._ray = ray
        self._placement = placement
        self._on_completed = on_completed
        self._started_s = time.monotonic()
        self._error: BaseException | None = None
        self._kill_at_s: float | None = None
        self._is_stopping = False
        self._lock = threading.Lock()
        saves_state = placement.plan.checkpoint_s is not None
        self._replicas = [
            GroupReplica(ray, placement.group(job.group), job, saves_state=saves_state)
            for job in jobs
        ]
        self._waiting: dict[Any, GroupReplica] = {}

    def run(self, on_start: Callable[[], None] | None = None) -> ClusterRunEnd:
        """Runs the flow to its end; its error is in what it returns."""
        for replica in self._replicas:
            replica.start()
            self._waiting[replica.wait()] = replica
        if on_start is not None:
            on_start()
        try:
            while self._waiting:
                self._wait_once()
        except BaseException as error:
            self._error = self._error or error
        finally:
            for replica in self._replicas:
                replica.kill()
        return self._end()

    def on_process(self, name: str) -> None:
        """A process of the replica with this name has begun."""
        for replica in self._replicas:
            if replica.job.name == name:
                replica.on_start()

    def _deadline_left_s(self) -> float | None:
        deadline_s = self._placement.plan.deadline_s
        if deadline_s is None:
            return None
        return max(deadline_s - (time.monotonic() - self._started_s), 0.001)

    def _wait_once(self) -> None:
        ready, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=_POLL_S)
        for reference in ready:
            replica = self._waiting.pop(reference)
            try:
                has_ended = replica.collect(reference)
            except Exception as error:
                self._fail(error)
                continue
            if has_ended:
                self._on_end(replica)
            elif self._is_stopping:
                # The process that continues was not told to stop.
                replica.kill()
            else:
                time.sleep(_RETRY_S)
                self._waiting[replica.wait()] = replica
        self._check_replicas()
        self._check_times()

    def _on_end(self, replica: GroupReplica) -> None:
        end = replica.end
        assert end is not None
        if end.error is not None and not (self._is_stopping and end.state == "cancelled"):
            self._fail(end.error.error(replica.job.title))

    def _check_replicas(self) -> None:
        try:
            for replica in self._waiting.values():
                replica.check()
        except ClusterError as error:
            if not self._is_stopping:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stops the others. They save their states, so that a new run continues there."""
        self._error = self._error or error
        self.drain()

    def _check_times(self) -> None:
        left_s = self._deadline_left_s()
        if left_s is not None and left_s <= 0.001 and not self._is_stopping:
            self._error = self._error or deadline_exceeded(self._placement.plan)
            self.cancel()
        if self._kill_at_s is not None and time.monotonic() > self._kill_at_s:
            self._kill_at_s = None
            self._waiting.clear()

    def drain(self) -> None:
        """Tells all groups to save their states and to end."""
        drain_s = self._placement.plan.runtime.drain_timeout_s
        self._stop(GroupReplica.drain, drain_s + _GRACE_S)

    def cancel(self) -> None:
        """Ends all groups at once."""
        self._stop(GroupReplica.cancel, _GRACE_S)

    def _stop(self, tell: Callable[[GroupReplica], None], grace_s: float) -> None:
        with self._lock:
            self._is_stopping = True
            self._kill_at_s = time.monotonic() + grace_s
        for replica in self._replicas:
            tell(replica)

    @property
    def restarts(self) -> int:
        return sum(replica.restarts for replica in self._replicas)

    def _end(self) -> ClusterRunEnd:
        state = FlowState.COMPLETED
        ends = [replica.end for replica in self._replicas]
        if self._error is not None:
            state = FlowState.FAILED
        elif any(end is None or end.state != "completed" for end in ends):
            state = FlowState.CANCELLED
        elif self._on_completed is not None:
            self._on_completed()
        parts = [
            (replica.job.group, replica.end.statistics)
            for replica in self._replicas
            if replica.end is not None and replica.end.statistics is not None
        ]
        elapsed_s = time.monotonic() - self._started_s
        statistics = merge_statistics(self._placement, parts, state, elapsed_s)
        return ClusterRunEnd(state, statistics, self._error, self.restarts)
