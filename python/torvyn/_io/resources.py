"""The memory, the CPUs and the open files that this process may use, what it uses, and the boot.

The kernel lists the control groups of a process in `/proc/self/cgroup` and the mounted hierarchies
in `/proc/self/mountinfo`. A limit of a parent applies as well, so the smallest one on the way up
counts. What cannot be read counts as no limit: reading limits never fails. Nothing is cached,
because limits may change while the process runs.
"""

from __future__ import annotations

import math
import os
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

SYSTEM: Final = Path("/")

_NO_LIMIT_BYTES: Final = 2**60
"""Version 1 has no word for "no limit": it says 2**63 rounded down to a page."""


@dataclass(frozen=True, slots=True)
class Limits:
    """None means no limit."""

    version: int | None = None
    """1 or 2; None if no group limits memory or CPU time."""
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    """What the group with the memory limit uses now, including page cache."""
    cpus: float | None = None
    """CPU time per time: 1.5 means one and a half CPUs."""


def read_limits(root: Path = SYSTEM) -> Limits:
    """The limits of this process. `root` replaces `/`, for tests."""
    memory = [found for group in _groups(root, "memory") if (found := _memory(group))]
    quotas = [quota for group in _groups(root, "cpu") if (quota := _cpu(group))]
    limit, used, memory_version = min(memory, default=(None, None, None))
    cpus, cpu_version = min(quotas, default=(None, None))
    return Limits(memory_version or cpu_version, limit, used, cpus)


@dataclass(frozen=True, slots=True)
class _Group:
    version: int
    folder: Path


def _groups(root: Path, controller: str) -> Iterator[_Group]:
    """The group of this process and its parents, in every hierarchy with the controller."""
    paths = _own_paths(root)
    for version, controllers, mounted_root, mount_point in _mounts(root):
        if version == 1 and controller not in controllers:
            continue
        path = paths.get(controller if version == 1 else "")
        if path is None:
            continue
        top = root / mount_point.lstrip("/")
        folder = top / _below(path, mounted_root)
        # In a container the path may be one of the host, which is not visible here.
        folder = folder if folder.is_dir() else top
        for each in (folder, *folder.parents):
            yield _Group(version, each)
            if each == top:
                break


def _own_paths(root: Path) -> dict[str, str]:
    """The path of the group by controller; by "" for version 2."""
    paths = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _mounts(root: Path) -> Iterator[tuple[int, list[str], str, str]]:
    """Version, controllers, mounted root and mount point of every hierarchy."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if kind[0] == "cgroup2" else 1
        yield version, kind[2].split(","), _unescape(fields[3]), _unescape(fields[4])


def _below(path: str, mounted_root: str) -> str:
    """The path of a group relative to what is mounted; "" if it lies outside."""
    pure = PurePosixPath(path)
    inside = pure.is_relative_to(mounted_root) and ".." not in pure.parts
    return str(pure.relative_to(mounted_root)) if inside else ""


def _memory(group: _Group) -> tuple[int, int, int] | None:
    """Limit, use and version."""
    is_v2 = group.version == 2
    limit = _number(group.folder / ("memory.max" if is_v2 else "memory.limit_in_bytes"))
    if limit is None or limit >= _NO_LIMIT_BYTES:
        return None
    used = _number(group.folder / ("memory.current" if is_v2 else "memory.usage_in_bytes"))
    return limit, used or 0, group.version


def _cpu(group: _Group) -> tuple[float, int] | None:
    """CPUs and version."""
    if group.version == 2:
        quota, _, period = _read(group.folder / "cpu.max").strip().partition(" ")
    else:
        quota = _read(group.folder / "cpu.cfs_quota_us").strip()
        period = _read(group.folder / "cpu.cfs_period_us").strip()
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period), group.version


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _unescape(field: str) -> str:
    """`mountinfo` writes white space and backslashes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


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
    _, pages, *_ = [*_read(root / "proc/self/statm").split(), "", ""]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") if pages else None


def boot_id(root: Path = SYSTEM) -> str:
    """Names this machine since it was started; empty if the system does not say."""
    return _read(root / "proc/sys/kernel/random/boot_id").strip()


def open_file_limits() -> tuple[int, int]:
    """How many files the process may have open, and to how many it may raise that."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_open_files() -> tuple[int, int]:
    """Raises the soft limit of open files to the hard one; returns the limit before and now. The
    usual soft limit, 1024, is for programs that call `select`; nothing here does."""
    soft, hard = open_file_limits()
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
    lines = _read(root / "proc/meminfo").splitlines()
    totals = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    return totals[0] if totals else None
