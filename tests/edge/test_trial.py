"""The rules by which a generation on trial is healthy or not."""

from __future__ import annotations

from typing import Any

import pytest

from torvyn._deploy.trial import Statuses, Trial
from torvyn.testing import Clock

PERIOD_S = 60.0
STALL_S = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


def begin(clock: Clock, before: Statuses = (), first: Statuses = ()) -> Trial:
    return Trial(PERIOD_S, STALL_S, before, first, clock)


def status(
    flow: str, received: int, errors: int = 0, state: str = "moving", held_s: float = 0.0
) -> dict[str, Any]:
    nodes = {"sink": {"received": received, "errors": errors}}
    health = {"state": state, "node": "sink", "held_s": held_s}
    return {"flow": flow, "health": health, "statistics": {"nodes": nodes}}


def test_a_busy_flow_does_not_hide_that_all_calls_of_another_fail(clock: Clock) -> None:
    trial = begin(clock, [status("alarms", 100), status("history", 100_000)])

    problem = trial.problem([status("alarms", 20, 20), status("history", 100_000)], True)

    assert problem == "flow `alarms`: 20 of 20 calls failed; before, 0 of 100 did"


def test_each_flow_is_compared_with_itself(clock: Clock) -> None:
    trial = begin(clock, [status("alarms", 100, 50), status("history", 100)])

    assert trial.problem([status("alarms", 100, 50), status("history", 100)], True) is None
    assert trial.problem([status("alarms", 100), status("history", 100, 50)], True) is not None


def test_a_flow_that_stands_still_fails_the_trial_of_all(clock: Clock) -> None:
    trial = begin(clock)

    problem = trial.problem([status("alarms", 1), status("history", 1, state="stalled")], True)

    assert problem == "flow `history`: it is stalled: "
    assert trial.is_standing_still


def test_a_flow_that_has_ended_does_not_fail_the_trial(clock: Clock) -> None:
    before = [status("alarms", 100), status("history", 100)]
    trial = begin(clock, before, first=before)

    assert trial.problem([status("alarms", 200)], True) is None


def test_a_flow_that_moves_or_has_nothing_to_do_is_good_after_the_period(clock: Clock) -> None:
    trial = begin(clock)
    statuses = [status("alarms", 9, held_s=0.2), status("history", 0, state="idle")]
    clock.advance(PERIOD_S - 1)
    assert not trial.is_over(statuses)

    clock.advance(1.2)

    assert trial.problem(statuses, True) is None
    assert trial.is_over(statuses)


@pytest.mark.parametrize("arrives_s", [0, 1, 29, 31, 45, 59])
def test_a_version_that_hangs_on_its_first_element_is_never_good(
    clock: Clock, arrives_s: int
) -> None:
    trial, problem = begin(clock), None
    for second in range(200):
        held_s = float(max(second - arrives_s, 0))
        statuses = [status("main", 1, held_s=held_s)]
        problem = trial.problem(statuses, True)
        if problem is not None:
            break
        assert second <= arrives_s or not trial.is_over(statuses)
        clock.advance(1)

    assert problem == "flow `main`: node `sink` has moved no element for 30 s"
    assert trial.is_standing_still
    assert clock.now_s <= 1.5 * PERIOD_S


def test_a_slow_element_at_the_end_of_the_period_prolongs_it(clock: Clock) -> None:
    trial = begin(clock)
    clock.advance(PERIOD_S + 10)
    assert not trial.is_over([status("main", 1, held_s=20.0)])

    assert trial.is_over([status("main", 2, held_s=0.5)])


def test_what_an_element_has_waited_before_the_trial_does_not_count(clock: Clock) -> None:
    clock.advance(1000)
    trial = begin(clock)
    clock.advance(1)

    assert trial.problem([status("main", 1, held_s=45.0)], True) is None


def test_a_process_that_does_not_answer_is_left_to_its_watchdog(clock: Clock) -> None:
    trial = begin(clock)
    clock.advance(PERIOD_S + STALL_S)
    assert trial.problem([], True) is None
    assert not trial.is_over([])

    clock.advance(STALL_S)

    assert trial.is_over([])
