"""kill -9 at random moments: nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scale import sample

PROCESS = Path(__file__).with_name("gateway_process.py")
COUNT = sample(1000, full=2000)
KILLS = sample(2, full=6)


def run_with_kills(folder: Path, seed: int, *mode: str) -> tuple[list[dict[str, Any]], int]:
    """Kills the process `KILLS` times, then lets it finish. Returns what it delivered."""
    lines, kills = lines_with_kills(folder, seed, 2500, *mode)
    return [json.loads(line) for line in lines if line != "run"], kills


def lines_with_kills(folder: Path, seed: int, rate: int, *mode: str) -> tuple[list[str], int]:
    """What the sink has written, and a line `run` before each run."""
    rng = random.Random(seed)
    command = [sys.executable, str(PROCESS), str(folder), str(COUNT), str(rate), *mode]
    kills = 0
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            with (folder / "delivered").open("a") as file:
                file.write("run\n")
            assert process.stdout.readline() == "ready\n"
            try:
                limit_s = rng.uniform(0.02, 0.4) if kills < KILLS else 60
                assert process.wait(limit_s) == 0
                break
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
                assert kills <= KILLS, "the process did not end"
    return (folder / "delivered").read_text().splitlines(), kills


@pytest.mark.parametrize("seed", range(sample(1, full=2)))
def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path, seed: int) -> None:
    delivered, kills = run_with_kills(tmp_path, seed)
    numbers = [each["seq"] for each in delivered]
    assert set(numbers) == set(range(COUNT))
    # A crash repeats what was delivered since the last commit.
    assert len(numbers) - COUNT <= 500 * max(kills, 1)


def test_a_counter_survives_kills(tmp_path: Path) -> None:
    delivered, _ = run_with_kills(tmp_path, 3, "stateful")
    seen = [each["seen"] for each in delivered]
    assert {each["seq"] for each in delivered} == set(range(COUNT))
    # The state is never older than what was handed over: no count is given twice.
    first: dict[int, int] = {}
    for each in delivered:
        assert first.setdefault(each["seen"], each["seq"]) == each["seq"]
    assert max(seen) >= COUNT


@pytest.mark.parametrize("order", ["oldest-first", "live-first"])
@pytest.mark.parametrize("seed", range(sample(1, full=4)))
def test_a_kill_repeats_what_was_delivered_since_the_last_commits(
    tmp_path: Path, seed: int, order: str
) -> None:
    # Everything is stored at once, so that few rows have all elements.
    lines, _ = lines_with_kills(tmp_path, seed, 10**9, "slow", order)
    runs: list[list[tuple[int, int]]] = []
    numbers: set[int] = set()
    commits = 0
    for line in lines:
        if line == "run":
            runs.append([])
            commits = 0
        elif line == "commit":
            commits += 1
        else:
            record = json.loads(line)
            numbers.add(record["seq"])
            runs[-1].append((record["at"], commits))
    assert numbers == {*range(COUNT)}
    for at, run in enumerate(runs):
        assert len(run) == len({number for number, _ in run})
        later = {number for other in runs[at + 1 :] for number, _ in other}
        last = max((commit for _, commit in run), default=0)
        # The last commit may not have ended, and the one before takes what was settled then.
        assert [each for each in run if each[0] in later and each[1] < last - 2] == []
