"""The limits of control groups, read from trees that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine_tree import SPLIT, UNIFIED, write_tree

from torvyn._io.resources import Limits, read_limits

MiB = 1024 * 1024
NO_LIMIT = "9223372036854771712\n"
UNIT = "sys/fs/cgroup/system.slice/torvyn.service"


def test_version_2_limits_are_read(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "0::/system.slice/torvyn.service\n",
        "proc/self/mountinfo": UNIFIED,
        f"{UNIT}/memory.max": f"{512 * MiB}\n",
        f"{UNIT}/memory.current": f"{100 * MiB}\n",
        f"{UNIT}/cpu.max": "150000 100000\n",
    }

    assert read_limits(write_tree(tmp_path, tree)) == Limits(2, 512 * MiB, 100 * MiB, 1.5)


def test_a_smaller_limit_of_a_parent_counts(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "0::/system.slice/torvyn.service\n",
        "proc/self/mountinfo": UNIFIED,
        f"{UNIT}/memory.max": f"{512 * MiB}\n",
        f"{UNIT}/cpu.max": "max 100000\n",
        "sys/fs/cgroup/system.slice/memory.max": f"{256 * MiB}\n",
        "sys/fs/cgroup/system.slice/memory.current": f"{200 * MiB}\n",
        "sys/fs/cgroup/system.slice/cpu.max": "50000 100000\n",
    }

    assert read_limits(write_tree(tmp_path, tree)) == Limits(2, 256 * MiB, 200 * MiB, 0.5)


def test_version_1_limits_are_read(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "4:memory:/gateway\n3:cpu,cpuacct:/gateway\n0::/\n",
        "proc/self/mountinfo": SPLIT,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT,
        "sys/fs/cgroup/memory/gateway/memory.limit_in_bytes": f"{512 * MiB}\n",
        "sys/fs/cgroup/memory/gateway/memory.usage_in_bytes": f"{64 * MiB}\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/gateway/cpu.cfs_quota_us": "200000\n",
        "sys/fs/cgroup/cpu,cpuacct/gateway/cpu.cfs_period_us": "100000\n",
    }

    assert read_limits(write_tree(tmp_path, tree)) == Limits(1, 512 * MiB, 64 * MiB, 2.0)


@pytest.mark.parametrize("mounted_root", ["/", "/docker/4f5e", "/docker/other"])
def test_in_a_container_the_mounted_group_is_read(tmp_path: Path, mounted_root: str) -> None:
    mount = SPLIT.replace("0:32 / ", f"0:32 {mounted_root} ")
    tree = {
        "proc/self/cgroup": "4:memory:/docker/4f5e\n",
        "proc/self/mountinfo": mount,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{512 * MiB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{MiB}\n",
    }

    assert read_limits(write_tree(tmp_path, tree)) == Limits(1, 512 * MiB, MiB, None)


def test_a_path_above_the_mounted_group_is_not_followed(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "0::/../../other\n",
        "proc/self/mountinfo": UNIFIED,
        "sys/fs/memory.max": "1\n",
        "sys/fs/cgroup/memory.max": f"{512 * MiB}\n",
    }

    assert read_limits(write_tree(tmp_path, tree)).memory_bytes == 512 * MiB


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": UNIFIED},
        {"proc/self/cgroup": "garbage\n", "proc/self/mountinfo": "more garbage - x\n"},
        {
            "proc/self/cgroup": "4:memory:/\n2:cpu:/\n",
            "proc/self/mountinfo": SPLIT,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "0\n",
        },
    ],
)
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, files: dict[str, str]) -> None:
    assert read_limits(write_tree(tmp_path, files)) == Limits()


def test_a_mount_point_with_a_space_is_found(tmp_path: Path) -> None:
    tree = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": UNIFIED.replace("/sys/fs/cgroup", r"/mnt/my\040groups"),
        "mnt/my groups/memory.max": f"{512 * MiB}\n",
    }

    assert read_limits(write_tree(tmp_path, tree)).memory_bytes == 512 * MiB
