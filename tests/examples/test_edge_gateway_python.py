"""The gateway of the example with its stages in Python, in the sandbox: the same as in C."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gateway_project import GatewayProject, MakeProject
from memory_group import run_in_small_memory

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

ROWS = 2_000
MOST_MIB = {1: 420, 3: 500}
"""What the README says that so many gateways take in one process."""


@pytest.fixture
def in_python(gateway: MakeProject, example_in_python: Path, tmp_path: Path) -> GatewayProject:
    """The project with its components in both languages."""
    built = example_in_python / "components" / "python"
    shutil.copytree(built, tmp_path / "edge-gateway/components/python", dirs_exist_ok=True)
    return gateway(ROWS)


def test_the_stages_in_python_do_what_those_in_c_do(in_python: GatewayProject) -> None:
    project = in_python
    assert project.scores("python.toml") == project.scores("Torvyn.toml")
    with project.collector():
        project.flow("main", "Torvyn.toml").run()
        in_c = project.windows
        project.windows_file.unlink()
    with project.collector():
        project.flow("main", "python.toml").run()

    assert len(in_c) == ROWS / 100
    assert project.windows == in_c


@pytest.mark.parametrize(("count", "most_mib"), MOST_MIB.items())
def test_gateways_in_python_run_in_a_small_machine(
    in_python: GatewayProject, count: int, most_mib: int
) -> None:
    names = in_python.copies_of_the_flow(count, "python.toml")

    report = run_in_small_memory(in_python, names, "python.toml")

    assert report["states"] == {"completed": count}
    assert (report["produced"], report["live"]) == (count * ROWS, 0)
    assert report["peak_rss_bytes"] < most_mib << 20
