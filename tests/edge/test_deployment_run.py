"""`torvyn deploy run`: a generation is exchanged, observed, and given up when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from running_deployment import running
from versioned_gateway import delivered, lost, pack, state_of

from torvyn.edge.artifact_source import add_from_layout
from torvyn.edge.generations import Deployment


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "gateway")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "delivered.txt"


def add(deployment: Deployment, version: str, output: Path, **parts: str) -> int:
    layout, descriptor = pack(deployment.folder.parent / "dist", version, output, **parts)  # type: ignore[arg-type]
    return add_from_layout(deployment, layout, descriptor, "dist").number


def test_a_new_generation_continues_where_the_old_one_stopped(
    deployment: Deployment, output: Path
) -> None:
    add(deployment, "1.0.0", output)
    with running(deployment.folder, output) as run:
        run.wait_until_good(1)
        deployment.activate(add(deployment, "2.0.0", output))
        run.wait_until_good(2)
        assert run.stop() == 143

    numbers = [number for number, _ in delivered(output)]
    assert run.versions() == ["1.0.0", "2.0.0"]
    assert lost(output) == []
    assert len(numbers) == len(set(numbers)), "a reading was delivered twice"


def test_a_generation_that_cannot_be_linked_never_replaces_the_old_one(
    deployment: Deployment, output: Path
) -> None:
    add(deployment, "1.0.0", output)
    with running(deployment.folder, output) as run:
        run.wait_until_good(1)
        pid = run.process.pid
        deployment.activate(add(deployment, "2.0.0", output, extra="[flow.main.nodes.x]\n"))
        run.wait_for_current(1)

        assert run.process.pid == pid
    assert run.versions() == ["1.0.0"]
    assert "could not be prepared" in str(state_of(deployment.folder)["failed"])


@pytest.mark.parametrize(
    "parts",
    [
        {"init": "raise RuntimeError('no sensor')"},
        {"init": "__import__('os')._exit(9)"},
        {"push": "__import__('os').kill(__import__('os').getpid(), 9)"},
    ],
    ids=["init-fails", "init-exits", "crashes"],
)
def test_a_generation_that_fails_is_given_up_and_the_fallback_comes_back(
    deployment: Deployment, output: Path, parts: dict[str, str]
) -> None:
    add(deployment, "1.0.0", output)
    with running(deployment.folder, output) as run:
        run.wait_until_good(1)
        deployment.activate(add(deployment, "2.0.0", output, **parts))
        run.wait_for_current(1)
        run.wait_for_version("1.0.0")
        count = len(delivered(output))
        run.wait("the old one delivers", lambda: len(delivered(output)) > count)

    assert state_of(deployment.folder)["good"] == [1]
    assert lost(output) == []


def test_a_generation_whose_calls_fail_is_given_up(deployment: Deployment, output: Path) -> None:
    add(deployment, "1.0.0", output)
    with running(deployment.folder, output, "--health-period", "3s") as run:
        run.wait_until_good(1)
        failing = {"push": "raise RuntimeError('rejected')", "on_error": "skip"}
        deployment.activate(add(deployment, "2.0.0", output, **failing))
        run.wait_for_current(1)

    assert "calls failed" in str(state_of(deployment.folder)["failed"])


def test_a_killed_run_leaves_no_generation_behind(deployment: Deployment, output: Path) -> None:
    add(deployment, "1.0.0", output)
    with running(deployment.folder, output) as run:
        run.wait_until_good(1)
        run.kill()
    with running(deployment.folder, output) as run:
        count = len(delivered(output))
        run.wait("it delivers again", lambda: len(delivered(output)) > count)

    assert lost(output) == []
