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
    rng = random.Random(seed)
    command = [sys.executable, str(PROCESS), str(folder), str(COUNT), "2500", *mode]
    kills = 0
    while True:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            try:
                limit_s = rng.uniform(0.02, 0.4) if kills < KILLS else 60
                assert process.wait(limit_s) == 0
                break
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
                assert kills <= KILLS, "the process did not end"
    lines = (folder / "delivered").read_text().splitlines()
    return [json.loads(line) for line in lines], kills


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
