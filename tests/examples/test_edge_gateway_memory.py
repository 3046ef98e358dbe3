"""The gateway of the example on a small machine: a control group of 512 MiB, and a cold start."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from gateway_project import GatewayProject, MakeProject, needs_river
from memory_group import GATEWAY_BYTES, run_in_small_memory

pytestmark = [needs_river, pytest.mark.timeout(300)]

MIB = 1 << 20


def test_five_sandboxed_stages_use_less_than_120_mib_under_load(gateway: MakeProject) -> None:
    report = run_in_small_memory(gateway(20_000), ["main"])

    assert report["states"] == {"completed": 1}
    assert (report["produced"], report["live"]) == (20_000, 0)
    assert report["peak_rss_bytes"] < 120 * MIB


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
        time_of_run(project)  # fills the cache of compiled components

        # The whole process, which also has to stop; the best of three, as the machine may be busy.
        assert min(time_of_run(project) for _ in range(3)) < 1.5


def time_of_run(project: GatewayProject) -> float:
    """The seconds that `torvyn run` takes until its only window is stored and it has ended."""
    project.windows_file.write_text("")
    command = [sys.executable, "-m", "torvyn", "run", "flow.main", "--quiet"]
    started = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - started
