"""kill -9 between the steps of a swap: nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

PROCESS = Path(__file__).with_name("swap_process.py")
STEPS = ("init", "snapshot", "restore", "process", "teardown")
COUNT = 1500
RATE = 1000
"""Elements per second: on a busy machine, the commit of a batch may take a few tenths of one."""
BATCH = 500


def run_with_kill(folder: Path, step: str, number: int, *mode: str) -> None:
    """Lets the process kill itself at a step, then finish in a second run."""
    command = [sys.executable, str(PROCESS), str(folder), str(COUNT), str(RATE)]
    killed = subprocess.run([*command, step, str(number), *mode], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run([*command, "none", "0", *mode], timeout=60, check=True)


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_lost_when_a_swap_is_killed(tmp_path: Path, step: str) -> None:
    run_with_kill(tmp_path, step, random.Random(step).randint(1, 2))

    check_delivered(tmp_path)


def check_delivered(folder: Path) -> None:
    """Everything came, at most one batch came twice, and the state missed nothing."""
    lines = (folder / "delivered").read_text().splitlines()
    delivered = [json.loads(line) for line in lines]
    numbers = [each["seq"] for each in delivered]

    assert set(numbers) == set(range(COUNT))
    assert len(numbers) - COUNT <= BATCH
    # The state is never older than what was handed over: no count is given twice.
    first: dict[int, int] = {}
    for each in delivered:
        assert first.setdefault(each["seen"], each["seq"]) == each["seq"]


def test_an_idempotent_sink_has_every_element_once(tmp_path: Path) -> None:
    run_with_kill(tmp_path, "restore", 1, "idempotent")

    with closing(sqlite3.connect(tmp_path / "delivered.db")) as rows:
        found = [row[0] for row in rows.execute("SELECT seq FROM elements ORDER BY seq")]
    assert found == list(range(COUNT))


@pytest.mark.parametrize("step", [*STEPS, "exchanged"])
def test_nothing_is_lost_when_an_exchange_of_segments_is_killed(tmp_path: Path, step: str) -> None:
    run_with_kill(tmp_path, step, random.Random(step).randint(1, 3), "graph")

    check_delivered(tmp_path)
