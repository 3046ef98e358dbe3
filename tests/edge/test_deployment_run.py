"""`torvyn deploy run`: a generation is exchanged, observed, and given up when it fails.

Both ways: by swapping components in the process that runs, and by exchanging that process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import product
from pathlib import Path

import pytest
from running_deployment import Running, running
from scale import sample
from versioned_gateway import add, delivered, killing, lost, state_of

from torvyn._deploy.deployment import Deployment

Run = Callable[..., AbstractContextManager[Running]]
EVERY_KILL = [*product(["getpid", "getppid"], ["init", "restore", "push"])]
"""Whether the flow's process is killed or the one that runs the deployment, and when."""
KILLED = sample([("getpid", "restore"), ("getppid", "push")], full=EVERY_KILL)
FAILURES = {
    "init-fails": {"init": "raise RuntimeError('no sensor')"},
    "init-exits": {"init": "__import__('os')._exit(9)"},
    "crashes": {"push": "__import__('os').kill(__import__('os').getpid(), 9)"},
}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path / "gateway")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "delivered.txt"


@pytest.fixture(params=["auto", "process"])
def run_it(request: pytest.FixtureRequest, deployment: Deployment, output: Path) -> Run:
    """Runs the deployment; exchanges are made one way or the other."""
    way = ("--exchange", request.param)
    return lambda *arguments: running(deployment.folder, output, *way, *arguments)


def test_a_new_generation_continues_where_the_old_one_stopped(
    deployment: Deployment, output: Path, run_it: Run
) -> None:
    add(deployment, "1.0.0", output)
    with run_it() as run:
        run.wait_until_good(1)
        deployment.activate(add(deployment, "2.0.0", output))
        run.wait_until_good(2)
        assert run.stop() == 143

    numbers = [number for number, _ in delivered(output)]
    assert run.versions() == ["1.0.0", "2.0.0"]
    assert lost(output) == []
    assert len(numbers) == len(set(numbers)), "a reading was delivered twice"


def test_a_generation_that_cannot_be_linked_never_replaces_the_old_one(
    deployment: Deployment, output: Path, run_it: Run
) -> None:
    add(deployment, "1.0.0", output)
    with run_it() as run:
        run.wait_until_good(1)
        pid = run.process.pid
        deployment.activate(add(deployment, "2.0.0", output, extra="[flow.main.nodes.x]\n"))
        run.wait_for_current(1)

        assert run.process.pid == pid
    assert run.versions() == ["1.0.0"]
    assert "could not be prepared" in str(state_of(deployment.folder)["failed"])


@pytest.mark.parametrize("parts", FAILURES.values(), ids=FAILURES)
def test_a_generation_that_fails_is_given_up_and_the_fallback_comes_back(
    deployment: Deployment, output: Path, run_it: Run, parts: dict[str, str]
) -> None:
    add(deployment, "1.0.0", output)
    with run_it() as run:
        run.wait_until_good(1)
        deployment.activate(add(deployment, "2.0.0", output, **parts))
        run.wait_for_current(1)
        run.wait_for_version("1.0.0")
        count = len(delivered(output))
        run.wait("the old one delivers", lambda: len(delivered(output)) > count)

    assert state_of(deployment.folder)["good"] == [1]
    assert lost(output) == []


@pytest.mark.full
def test_a_generation_that_hangs_on_its_first_element_is_given_up_and_not_tried_again(
    deployment: Deployment, output: Path, run_it: Run
) -> None:
    add(deployment, "1.0.0", output)
    with run_it() as run:
        run.wait_until_good(1)
        hanging = add(deployment, "2.0.0", output, push="__import__('threading').Event().wait()")
        deployment.activate(hanging)
        run.wait_for_current(1)
        count = len(delivered(output))
        run.wait("the old one delivers", lambda: len(delivered(output)) > count)

    state = state_of(deployment.folder)
    assert state["good"] == [1]
    assert "has moved no element" in str(state["failed"])
    assert run.versions() == ["1.0.0"]
    assert lost(output) == []


def test_a_generation_whose_calls_fail_is_given_up(
    deployment: Deployment, output: Path, run_it: Run
) -> None:
    add(deployment, "1.0.0", output)
    with run_it("--health-period", "3s") as run:
        run.wait_until_good(1)
        failing = {"push": "raise RuntimeError('rejected')", "on_error": "skip"}
        deployment.activate(add(deployment, "2.0.0", output, **failing))
        run.wait_for_current(1)

    assert "failed" in str(state_of(deployment.folder)["failed"])
    assert run.versions() == ["1.0.0"]


@pytest.mark.parametrize(("which", "step"), KILLED)
def test_an_exchange_that_is_killed_at_any_step_is_finished(
    deployment: Deployment, output: Path, run_it: Run, which: str, step: str
) -> None:
    kill = killing(which, output.with_name("killed"))
    add(deployment, "1.0.0", output)
    with run_it() as run:
        run.wait_until_good(1)
        deployment.activate(add(deployment, "2.0.0", output, **{step: kill}))
        if which == "getpid":
            run.wait_until_good(2)
        else:
            run.process.wait(30)
    with run_it() as again:
        again.wait_until_good(2)
        again.wait_for_version("2.0.0")

    assert lost(output) == []


def test_a_killed_run_leaves_no_generation_behind(deployment: Deployment, output: Path) -> None:
    add(deployment, "1.0.0", output)
    with running(deployment.folder, output) as run:
        run.wait_until_good(1)
        run.kill()
    with running(deployment.folder, output) as run:
        count = len(delivered(output))
        run.wait("it delivers again", lambda: len(delivered(output)) > count)

    assert lost(output) == []
