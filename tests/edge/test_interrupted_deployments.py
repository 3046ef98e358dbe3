"""A deployment is killed, or its disk is full, between any two steps: a good generation stays
current and can be started."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from deployments import add, full_at, killed_at, steps_of, with_fallback
from scale import sample

from torvyn._deploy.deployment import Deployment
from torvyn.errors import MissingError

STRIDE = sample(4, full=1)
"""Every step is tried, or every so manieth."""


def _update(deployment: Deployment) -> None:
    deployment.activate(add(deployment, 3).number)


def _finish(deployment: Deployment) -> None:
    _update(deployment)
    deployment.start()
    deployment.change(lambda state, records: state.mark_good(3))
    deployment.collect()


def _fail(deployment: Deployment) -> None:
    _update(deployment)
    for _ in range(3):
        deployment.start()


OPERATIONS: dict[str, Callable[[Deployment], object]] = {
    "add": lambda deployment: add(deployment, 3),
    "update": _update,
    "finish": _finish,
    "fail": _fail,
    "roll-back": Deployment.roll_back,
    "collect": Deployment.collect,
    "set aside": lambda deployment: deployment.set_aside(2),
}
each_operation = pytest.mark.parametrize("name", OPERATIONS)


def check(folder: Path) -> None:
    """What must hold whenever a process looks at the folder."""
    deployment = Deployment(folder)
    state, records = deployment.state(), deployment.records()
    assert state.current in records
    assert state.previous in state.good or state.previous is None
    fallback = state.current if state.current in state.good else state.previous
    assert fallback in state.good & set(records), "no good generation is left"
    started = deployment.start()
    assert deployment.manifest(started.number).read_text()
    assert os.readlink(folder / "current") == f"generations/{started.number}"
    assert list((folder / "staging").iterdir()) == []


@each_operation
def test_a_process_killed_at_any_step_leaves_a_good_generation(name: str, tmp_path: Path) -> None:
    steps = steps_of(OPERATIONS[name], tmp_path / "counted")

    for step in range(1, steps + 2, STRIDE):
        folder = with_fallback(tmp_path / f"at-{step}").folder
        assert killed_at(step, OPERATIONS[name], folder) == (step <= steps)
        check(folder)
        # The next command finishes or repeats the work.
        OPERATIONS[name](Deployment(folder))
        check(folder)


@each_operation
def test_a_disk_that_is_full_at_any_step_leaves_a_good_generation(
    name: str, tmp_path: Path
) -> None:
    steps = steps_of(OPERATIONS[name], tmp_path / "counted")

    for step in range(1, steps + 1, STRIDE):
        folder = with_fallback(tmp_path / f"at-{step}").folder
        before = Deployment(folder).state()
        with suppress(MissingError):
            full_at(step, OPERATIONS[name], folder)
        damaged = {2} if name == "set aside" else set()
        assert Deployment(folder).state().good >= before.good - damaged
        check(folder)


def test_a_start_that_cannot_be_counted_still_starts(tmp_path: Path) -> None:
    folder = with_fallback(tmp_path / "gateway").folder
    started: list[int] = []
    _update(Deployment(folder))

    full_at(1, lambda deployment: started.append(deployment.start().number), folder)

    assert started == [3]
