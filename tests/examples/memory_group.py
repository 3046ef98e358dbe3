"""A control group with a memory limit, and the flows of a gateway that run in it.

Version 1 and 2 are supported, and writing to `/sys/fs/cgroup` is needed, which is root's right and
not given in most containers; a test skips where it is not. Nothing smaller would show the same:
`RLIMIT_AS` limits addresses, of which the sandbox reserves far more than it uses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from gateway_project import GatewayProject

ROOT: Final = Path("/sys/fs/cgroup")
GATEWAY_BYTES: Final = 512 << 20
"""The memory of the gateway in the tests."""


class MemoryGroup:
    def __init__(self, folder: Path, limit: str, peak: str) -> None:
        self.folder = folder
        self._limit = folder / limit
        self._peak = folder / peak

    def limit(self, limit_bytes: int) -> None:
        self._limit.write_text(str(limit_bytes))

    @property
    def peak_bytes(self) -> int:
        """The most memory that was charged to the group, with the kernel's and the file cache."""
        return int(self._peak.read_text())

    def join(self) -> None:
        """Moves this process into the group; for `preexec_fn`."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))


def _group(name: str) -> MemoryGroup:
    if (ROOT / "memory").is_dir():
        folder = ROOT / "memory" / name
        return MemoryGroup(folder, "memory.limit_in_bytes", "memory.max_usage_in_bytes")
    return MemoryGroup(ROOT / name, "memory.max", "memory.peak")


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Creates the group and removes it; skips the test where that is not possible."""
    group = _group(f"torvyn-test-{os.getpid()}")
    try:
        group.folder.mkdir()
    except OSError:
        pytest.skip("needs a control group, which cannot be made here")
    try:
        try:
            group.limit(limit_bytes)
        except OSError:
            pytest.skip("needs a control group, which cannot be made here")
        yield group
    finally:
        group.folder.rmdir()


def run_in_small_memory(
    project: GatewayProject, flows: list[str], manifest: str = "Torvyn.toml"
) -> dict[str, Any]:
    """Runs flows with a collector, in a small group; gives what `gateway_load.py` says."""
    program = Path(__file__).with_name("gateway_load.py")
    command = [sys.executable, str(program), str(project.folder / manifest), *flows]
    with memory_group(GATEWAY_BYTES) as group, project.collector():
        done = subprocess.run(
            command,
            preexec_fn=group.join,
            check=True,
            capture_output=True,
            text=True,
            timeout=200,
        )
        report: dict[str, Any] = json.loads(done.stdout)
        return report | {"peak_group_bytes": group.peak_bytes}
