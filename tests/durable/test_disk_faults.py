"""A disk that fails or is full: no commit without durability, and the store recovers."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from disk_faults import OPEN, SYNC, TRUNCATE, WRITE, run_scenario
from power_loss import images, read_events
from scale import sample
from workload import LOG, OPTIONS, judge, position

from torvyn._durable.disk.store import DurableStore

pytestmark = pytest.mark.timeout(180)
ERRORS = [errno.EIO, errno.ENOSPC]
COMMITS = sample(50, full=150)
ROUNDS = sample(15, full=60)


@pytest.mark.parametrize("times", sample([7], full=[1, 7]))
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("operation", [WRITE, SYNC])
def test_a_failed_operation_of_a_commit_leaves_nothing_of_it(
    tmp_path: Path, operation: int, error: int, times: int
) -> None:
    run_scenario("fail_each", tmp_path, operation, error, times)


@pytest.mark.parametrize("error", sample(ERRORS[:1], full=ERRORS))
@pytest.mark.parametrize("operation", [WRITE, SYNC, OPEN, TRUNCATE])
def test_a_disk_that_fails_while_a_store_is_opened_damages_nothing(
    tmp_path: Path, operation: int, error: int
) -> None:
    run_scenario("fail_open", tmp_path, operation, error)


def judge_images(log: Path, folder: Path, rounds: int, seed: int) -> None:
    """Power is lost at random moments; whatever was noted before is there."""
    dice, events = random.Random(seed), read_events(log)
    moments = [dice.randrange(len(events)) for _ in range(rounds)]
    for number, (noted, files) in enumerate(images(events, moments, dice)):
        image = folder / f"image-{number}"
        image.mkdir()
        for name, content in files.items():
            (image / name).write_bytes(content)
        with DurableStore.open(image / "flow.db", OPTIONS) as store:
            assert position(store) >> 32 >= noted >> 32
            assert store.acknowledged(LOG) + 1 >= noted & 0xFFFFFFFF
            assert judge(store)[1] == set()


@pytest.mark.parametrize("fail_every", [0, 3])
@pytest.mark.parametrize("seed", range(sample(1, full=2)))
def test_a_power_failure_loses_no_commit(tmp_path: Path, seed: int, fail_every: int) -> None:
    folder, log = tmp_path / "live", tmp_path / "log"
    folder.mkdir()

    run_scenario("commit_and_note", folder, seed, COMMITS, fail_every, log=log)

    judge_images(log, tmp_path, ROUNDS, seed)


@pytest.mark.parametrize("seed", range(sample(1, full=3)))
def test_what_a_failed_sync_left_in_the_page_cache_is_not_trusted(
    tmp_path: Path, seed: int
) -> None:
    folder, log = tmp_path / "live", tmp_path / "log"
    folder.mkdir()

    run_scenario("fail_a_sync_and_die", folder, seed, log=log)
    run_scenario("commit_and_note", folder, seed, 20, 0, log=log)

    judge_images(log, tmp_path, ROUNDS, seed)
