"""The rules by which a generation on trial is healthy or not."""

from __future__ import annotations

from typing import Any

from torvyn.edge.running.trial import Trial


def status(flow: str, received: int, errors: int = 0, state: str = "moving") -> dict[str, Any]:
    nodes = {"sink": {"received": received, "errors": errors}}
    return {"flow": flow, "health": {"state": state}, "statistics": {"nodes": nodes}}


def test_a_busy_flow_does_not_hide_that_all_calls_of_another_fail() -> None:
    trial = Trial(60, 0, [status("alarms", 100), status("history", 100_000)])

    problem = trial.problem([status("alarms", 20, 20), status("history", 100_000)], True)

    assert problem == "flow `alarms`: 20 of 20 calls failed; before, 0 of 100 did"


def test_each_flow_is_compared_with_itself() -> None:
    trial = Trial(60, 0, [status("alarms", 100, 50), status("history", 100)])

    assert trial.problem([status("alarms", 100, 50), status("history", 100)], True) is None
    assert trial.problem([status("alarms", 100), status("history", 100, 50)], True) is not None


def test_a_flow_that_stands_still_fails_the_trial_of_all() -> None:
    trial = Trial(60, 0, ())

    problem = trial.problem([status("alarms", 1), status("history", 1, state="stalled")], True)

    assert problem == "flow `history`: it is stalled: "
    assert trial.is_standing_still


def test_a_flow_that_has_ended_does_not_fail_the_trial() -> None:
    before = [status("alarms", 100), status("history", 100)]
    trial = Trial(60, 0, before, first=before)

    assert trial.problem([status("alarms", 200)], True) is None
