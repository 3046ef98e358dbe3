"""The generations of a deployment: what each command changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deployments import add, digest, with_fallback

from torvyn._deploy.deployment import Deployment, deployments, find_deployment
from torvyn._deploy.generation_state import MAX_FAILURES, DeploymentState
from torvyn.errors import TorvynError


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Generation 2 is current and good, 1 is its fallback."""
    return with_fallback(tmp_path / "gateway")


def test_the_first_generation_becomes_current_and_is_on_trial(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "gateway")

    record = add(deployment, 1)

    state = deployment.state()
    assert (record.number, state.current, state.trying) == (1, 1, 1)
    assert os.readlink(deployment.folder / "current") == "generations/1"


def test_a_later_generation_waits_until_it_is_activated(deployment: Deployment) -> None:
    add(deployment, 3)
    assert deployment.state().current == 2

    state = deployment.activate(3)

    assert (state.current, state.previous, state.trying, state.attempts) == (3, 2, 3, 0)


def test_a_generation_on_trial_is_given_up_at_its_third_start(deployment: Deployment) -> None:
    add(deployment, 3)
    deployment.activate(3)

    started = [deployment.start().number for _ in range(3)]

    assert started == [3, 3, 2]
    assert digest(3) in deployment.state().failed
    assert deployment.state().previous == 1


def test_a_good_generation_is_started_any_number_of_times(deployment: Deployment) -> None:
    assert {deployment.start().number for _ in range(5)} == {2}


def test_the_only_generation_is_started_even_if_it_fails(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "gateway")
    add(deployment, 1)

    assert [deployment.start().number for _ in range(4)] == [1] * 4


def test_a_generation_on_trial_is_never_the_fallback(deployment: Deployment) -> None:
    for number in (3, 4):
        add(deployment, number)
        deployment.activate(number)

    assert deployment.state().previous == 2


def test_rolling_back_twice_returns_to_the_same_generation(deployment: Deployment) -> None:
    assert deployment.roll_back().current == 1
    assert deployment.roll_back().current == 2


def test_a_failed_generation_is_not_what_a_roll_back_returns_to(deployment: Deployment) -> None:
    record = add(deployment, 3)
    deployment.activate(3)

    state = deployment.change(lambda state, records: state.give_up(record, "it failed"))

    assert (state.current, state.previous, state.trying) == (2, 1, None)


def test_a_roll_back_without_a_fallback_is_an_error(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "gateway")
    add(deployment, 1)

    with pytest.raises(TorvynError, match="no other good generation"):
        deployment.roll_back()


def test_an_artifact_that_failed_is_tried_again_only_by_a_later_version() -> None:
    state = DeploymentState(channel={"version": 7})
    record = add_record(1)

    failed = state.give_up(record, "it failed", state.seen_version)

    assert [failed.can_try(record.digest, version) for version in (6, 7, 8)] == [False, False, True]


def test_an_artifact_that_failed_in_one_channel_may_be_tried_by_another() -> None:
    state = DeploymentState(channel={"name": "testing", "version": 70})
    record = add_record(1)

    failed = state.give_up(record, "it failed", state.seen_version)

    assert not failed.can_try(record.digest, 70)
    assert failed.accept("stable", {"name": "stable", "version": 3}).can_try(record.digest, 3)


def test_the_failures_that_are_remembered_are_bounded() -> None:
    state = DeploymentState()
    for number in range(MAX_FAILURES + 10):
        state = state.give_up(add_record(number), "it failed", number)

    assert len(state.failed) == MAX_FAILURES
    assert digest(0) not in state.failed
    assert digest(MAX_FAILURES + 9) in state.failed


def test_a_barred_version_is_not_activated_by_hand(deployment: Deployment) -> None:
    add(deployment, 3, version=3)
    deployment.change(lambda state, records: state.mark_good(2, min_version=4))

    with pytest.raises(TorvynError, match="no longer allows versions before 4"):
        deployment.activate(3)


def test_garbage_collection_keeps_the_current_generation_and_its_fallback(
    deployment: Deployment,
) -> None:
    for number in (3, 4, 5):
        add(deployment, number)

    assert deployment.collect(keep=1) == [3, 4]
    assert list(deployment.records()) == [1, 2, 5]
    assert list((deployment.folder / "staging").iterdir()) == []


def test_updates_remove_only_generations_of_the_channel(deployment: Deployment) -> None:
    for number, version in ((3, None), (4, 4), (5, 5)):
        add(deployment, number, version=version)

    assert deployment.collect(keep=1, is_of_channel=True) == [4]
    assert list(deployment.records()) == [1, 2, 3, 5]


def test_numbers_are_not_used_twice(deployment: Deployment) -> None:
    add(deployment, 3)
    deployment.collect()

    assert add(deployment, 4).number == 4


def test_a_current_generation_that_was_removed_by_hand_is_replaced(deployment: Deployment) -> None:
    deployment.path(2).rename(deployment.folder / "elsewhere")

    assert deployment.start().number == 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 2}'])
@pytest.mark.parametrize("files", [["state.json"], ["state.json", "state.copy.json"]])
def test_a_damaged_state_is_recovered_from_its_copy_or_the_links(
    deployment: Deployment, content: str, files: list[str]
) -> None:
    for file in files:
        (deployment.folder / file).write_text(content)

    state = deployment.state()

    assert (state.current, state.previous, state.next) == (2, 1, 3)


def test_a_state_that_is_written_and_read_is_the_same(deployment: Deployment) -> None:
    state = deployment.state().give_up(add_record(9), "it failed", 3)

    assert DeploymentState.from_dict(state.to_dict()) == state


def test_the_deployments_of_a_folder_are_found_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        add(Deployment(tmp_path / name), 1)
    (tmp_path / "not-one").mkdir()

    assert [each.name for each in deployments(tmp_path)] == ["a", "b"]
    with pytest.raises(TorvynError, match="no deployment `c`"):
        find_deployment(tmp_path, "c")


def add_record(number: int):  # type: ignore[no-untyped-def]
    from torvyn._deploy.generation_state import GenerationRecord

    return GenerationRecord(number, digest(number), "test", "2026-01-01T00:00:00+00:00")
