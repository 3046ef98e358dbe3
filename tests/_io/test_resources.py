"""What the process may use: the machine, less what its control group takes away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine_tree import UNIFIED, write_tree

from torvyn._io.resources import (
    Limits,
    Resources,
    allowed_cpus,
    boot_id,
    read_resources,
    resident_bytes,
)

MiB = 1024 * 1024
V1 = Path("/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("cores", "quota", "cpus"), [(4, None, 4), (4, 1.5, 2), (4, 0.2, 1), (2, 8.0, 2)]
)
def test_a_quota_reduces_the_number_of_threads(cores: int, quota: float | None, cpus: int) -> None:
    assert Resources(cores, None, Limits(cpus=quota)).cpus == cpus


def test_the_machine_has_less_memory_than_the_limit(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": UNIFIED,
        "proc/meminfo": f"MemTotal:       {256 * 1024} kB\nMemFree: 1 kB\n",
        "sys/fs/cgroup/memory.max": f"{512 * MiB}\n",
    }

    resources = read_resources(write_tree(tmp_path, tree))

    assert resources.memory_bytes == 256 * MiB
    assert not resources.is_memory_limited


def test_nothing_known_is_no_limit(tmp_path: Path) -> None:
    assert read_resources(tmp_path).memory_bytes is None
    assert resident_bytes(tmp_path) is None


def test_this_machine_is_read() -> None:
    assert 1 <= allowed_cpus() <= (os.cpu_count() or 1)
    assert (resident_bytes() or 0) > MiB


@pytest.fixture
def groups() -> Iterator[dict[str, Path]]:
    """A real control group of version 1 for memory and one for CPU time."""
    made = {name: V1 / name / f"torvyn-test-{os.getpid()}" for name in ("memory", "cpu")}
    try:
        for folder in made.values():
            folder.mkdir()
        (made["memory"] / "memory.limit_in_bytes").write_text(str(512 * MiB))
        (made["cpu"] / "cpu.cfs_quota_us").write_text("50000")
    except OSError:
        pytest.skip("needs a control group, which cannot be made here")
    yield made
    for folder in made.values():
        folder.rmdir()


def test_the_limits_of_a_real_group_are_read(groups: dict[str, Path]) -> None:
    files = [str(folder / "cgroup.procs") for folder in groups.values()]
    program = (
        "import os, sys\n"
        "for file in sys.argv[1:]: open(file, 'w').write(str(os.getpid()))\n"
        "from torvyn._io.resources import read_resources\n"
        "found = read_resources()\n"
        "print(found.memory_bytes, found.limits.cpus, found.cpus, found.limits.version)\n"
    )
    command = [sys.executable, "-c", program, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == [str(512 * MiB), "0.5", "1", "1"]


def test_a_boot_has_a_name(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/sys/kernel/random/boot_id": "5f0c-11\n"})

    assert boot_id(root) == "5f0c-11"
    assert boot_id(tmp_path / "elsewhere") == ""
