"""The gateway of the example on a small machine: a control group of 512 MiB, and a cold start."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from gateway_project import GatewayProject, MakeProject
from memory_group import GATEWAY_BYTES, run_in_small_memory

pytestmark = pytest.mark.timeout(300)

MIB = 1 << 20


@pytest.mark.promise("edge.memory-512-mib")
def test_five_sandboxed_stages_use_less_than_120_mib_under_load(gateway: MakeProject) -> None:
    report = run_in_small_memory(gateway(20_000), ["main"])

    assert report["states"] == {"completed": 1}
    assert (report["produced"], report["live"]) == (20_000, 0)
    assert report["peak_rss_bytes"] < 120 * MIB


@pytest.mark.promise("edge.memory-512-mib")
def test_fifty_gateways_run_in_300_mib_of_a_small_machine(gateway: MakeProject) -> None:
    project = gateway(1000)

    report = run_in_small_memory(project, project.copies_of_the_flow(50))

    assert report["states"] == {"completed": 50}
    assert (report["produced"], report["live"]) == (50_000, 0)
    assert report["peak_rss_bytes"] < 300 * MIB
    assert report["peak_group_bytes"] < GATEWAY_BYTES


def test_the_first_window_is_delivered_soon_after_a_cold_start(gateway: MakeProject) -> None:
    project = gateway(100)
    with project.collector():
        cpu_time_of_run(project)  # fills the cache of compiled components

        # CPU time of the whole process, which also has to stop: wall-clock time would measure what
        # else the machine does.
        assert min(cpu_time_of_run(project) for _ in range(3)) < 1.5
    assert len(project.windows) == 1


def cpu_time_of_run(project: GatewayProject) -> float:
    """The seconds of CPU time of `torvyn run`, which delivers one window and ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "torvyn", "run", "flow.main", "--quiet"]
    subprocess.run(command, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
