"""The memory, CPUs and open files that this process may use, and how much memory it uses."""

from __future__ import annotations

import math
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from torvyn.machine.cgroups import SYSTEM, Limits, read_limits


@dataclass(frozen=True, slots=True)
class Resources:
    cores: int
    """CPUs that the scheduler may put the process on."""
    installed_bytes: int | None
    limits: Limits

    @property
    def cpus(self) -> int:
        """How many threads can run at once: a quota of 1.5 CPUs keeps two threads busy."""
        quota = self.limits.cpus
        return self.cores if quota is None else max(1, min(self.cores, math.ceil(quota)))

    @property
    def memory_bytes(self) -> int | None:
        """The memory that the process may use; None if that is unknown."""
        known = (self.limits.memory_bytes, self.installed_bytes)
        return min((each for each in known if each is not None), default=None)

    @property
    def is_memory_limited(self) -> bool:
        """Whether a control group gives the process less than the machine has."""
        limit = self.limits.memory_bytes
        return limit is not None and limit == self.memory_bytes


def read_resources(root: Path = SYSTEM) -> Resources:
    """The resources of this process. `root` replaces `/`, for tests."""
    return Resources(_cores(), _installed_bytes(root), read_limits(root))


def allowed_cpus() -> int:
    """CPUs that the process may use, by affinity and by the quota of its control group."""
    return read_resources().cpus


def resident_bytes(root: Path = SYSTEM) -> int | None:
    """The memory that the process has in RAM; None if the system does not say."""
    try:
        pages = (root / "proc/self/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def raise_open_files() -> tuple[int, int]:
    """Raises the soft limit of open files to the hard one; returns the limit before and now. The
    usual soft limit, 1024, is for programs that call `select`; nothing here does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft, soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # Some systems allow less than the hard limit says.
        return soft, soft
    return soft, hard


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _installed_bytes(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    totals = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    return totals[0] if totals else None
