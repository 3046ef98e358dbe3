"""A flow on a cluster: starts its groups, watches them, and ends when all of them have ended.

A replica of a group, as the command sees it, is which processes it has had, and how it ended.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from torvyn._cluster.failures import deadline_exceeded, group_crashes, group_died
from torvyn._cluster.group_actor import GroupActor
from torvyn._cluster.job import GroupEnd, GroupJob
from torvyn._cluster.merged_statistics import merge_statistics
from torvyn._cluster.placement import Group, Placement
from torvyn._cluster.ray_cluster import actor_options
from torvyn._contract.enums import FlowState
from torvyn._flow.statistics import Statistics
from torvyn.errors import ClusterError

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


logger = logging.getLogger("torvyn.cluster")

QUICK_S: Final = 15.0
"""Two starts within this time: the process between them died soon."""
QUICK_DEATHS: Final = 5
"""After so many in a row, the flow has failed."""
WAITING_S: Final = 30.0
"""A replica without a process is reported after this time."""


class GroupReplica:
    def __init__(self, ray: ModuleType, group: Group, job: GroupJob, *, saves_state: bool) -> None:
        self.job = job
        self.starts = 0
        """How many processes it has had."""
        self.end: GroupEnd | None = None
        self._ray = ray
        self._group = group
        self._saves_state = saves_state
        self._actor: Any = None
        self._quick_deaths = self._failures = 0
        self._started_s = -math.inf
        self._missing_since_s = math.inf
        self._reason = "its process has ended"

    def start(self) -> None:
        """Asks Ray for a process."""
        actor: Any = self._ray.remote(GroupActor)
        options = actor_options(self._group, is_restarted=self._saves_state)
        self._missing_since_s = time.monotonic()
        self._actor = actor.options(**options).remote(self.job)

    @property
    def restarts(self) -> int:
        """How many processes have continued the work of one that died."""
        return max(self.starts - 1, 0)

    def on_start(self) -> None:
        """A process of the replica has begun. Processes say so themselves: Ray tells the command
        late, and not each time."""
        now_s = time.monotonic()
        is_quick = now_s - self._started_s < QUICK_S
        self._quick_deaths = self._quick_deaths + 1 if is_quick else 0
        self.starts += 1
        self._started_s, self._missing_since_s = now_s, math.inf
        if self.starts == 1:
            return
        logger.warning(
            "%s died; a new process continues from its last commit",
            self.job.title,
            extra={
                "event": "cluster.group-died",
                "group": self.job.group,
                "replica": self.job.replica,
            },
        )

    def check(self) -> None:
        """Raises if its processes die again and again."""
        if self._quick_deaths >= QUICK_DEATHS:
            raise group_crashes(self.job.title, self._quick_deaths, self._reason)
        if time.monotonic() - self._missing_since_s > WAITING_S:
            self._missing_since_s = math.inf
            # Ray does not tell which of the two it is.
            logger.warning(
                "%s has had no process for %g s: no machine of the cluster has room for it, or "
                "processes start slowly there",
                self.job.title,
                WAITING_S,
            )

    def wait(self) -> Any:
        """The reference of its end."""
        return self._actor.wait.remote()

    def collect(self, reference: Any) -> bool:
        """Takes its end. False if its process has died, or cannot be reached: then it is asked
        again, and what was asked of the process that continues fails until it runs."""
        try:
            self.end = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            self._reason = str(error).strip().partition("\n")[0]
            if not self._saves_state:
                raise group_died(self.job.title, self._reason) from error
            self._failures += 1
            if self._failures > 1:
                self._missing_since_s = min(self._missing_since_s, time.monotonic())
            return False
        return True

    def drain(self) -> None:
        self._tell("drain")

    def cancel(self) -> None:
        self._tell("cancel")

    def _tell(self, what: str) -> None:
        if self.end is None and self._actor is not None:
            with suppress(self._ray.exceptions.RayError):
                getattr(self._actor, what).remote()

    def kill(self) -> None:
        """Ends its process for good."""
        if self._actor is None:
            return
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor, no_restart=True)
