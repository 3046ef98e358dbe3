"""One replica of a group, as the command sees it: which processes it has had, and how it ended."""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

from torvyn.cluster.placement import Group
from torvyn.cluster.ray.connection import actor_options
from torvyn.cluster.ray.failures import group_crashes, group_died
from torvyn.cluster.ray.group_actor import GroupActor
from torvyn.cluster.ray.job import GroupEnd, GroupJob

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
