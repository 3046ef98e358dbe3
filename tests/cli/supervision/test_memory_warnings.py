"""Flows that may use more memory than their control group allows are warned about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import EXAMPLE, Cli

from torvyn._io.resources import Limits, Resources

MiB = 1024 * 1024
Limit = Callable[[int | None], None]

# The example: 4 nodes with 64 MiB each and 3 queues of 1 MiB, and 48 MiB for the process.
NEEDED = (4 * 64 + 3 + 48) * MiB


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Sets the memory limit of the process, as its control group would."""

    def apply(memory_bytes: int | None) -> None:
        limits = Limits(2, memory_bytes, 20 * MiB)
        found = Resources(2, 4096 * MiB, limits)
        monkeypatch.setattr("torvyn._cli.target.read_resources", lambda: found)
        monkeypatch.setattr("torvyn._io.resources.read_resources", lambda: found)

    return apply


@pytest.mark.promise("edge.small-machines")
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_flow_that_does_not_fit_is_warned_about(cli: Cli, limit: Limit, command: str) -> None:
    limit(NEEDED - 1)
    done = cli(command, cwd=EXAMPLE)

    assert done.code == 0
    assert "warning[link.memory-limit]: the 4 nodes and 3 queues of flow `main` may use" in done.err
    assert "set `max_memory_per_component` of `[runtime]` to 63MiB or less" in done.err


@pytest.mark.promise("edge.small-machines")
@pytest.mark.parametrize("memory_bytes", [NEEDED, None])
def test_a_flow_that_fits_is_not(cli: Cli, limit: Limit, memory_bytes: int | None) -> None:
    limit(memory_bytes)

    assert "memory-limit" not in cli("check", cwd=EXAMPLE).err


def test_a_warning_is_no_problem_of_the_manifest(cli: Cli, limit: Limit) -> None:
    limit(32 * MiB)
    found = json.loads(cli("check", "--format", "json", cwd=EXAMPLE).out)

    assert found["ok"] is True
    assert [problem["code"] for problem in found["problems"]] == ["link.memory-limit"]
    assert "give the process more memory" in found["problems"][0]["hint"]


def test_doctor_shows_the_limit_and_the_flow_that_does_not_fit(cli: Cli, limit: Limit) -> None:
    limit(100 * MiB)
    done = cli("doctor", cwd=EXAMPLE)

    assert "memory         100 MiB by its control group (version 2), 20 MiB in use" in done.out
    assert "warn  manifest" in done.out


def test_doctor_shows_a_quota_of_cpu_time(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Resources(2, 4096 * MiB, Limits(2, None, None, 0.5))
    monkeypatch.setattr("torvyn._io.resources.read_resources", lambda: found)

    assert "cores          2, limited to 0.5 by its" in cli("doctor", cwd=tmp_path).out
