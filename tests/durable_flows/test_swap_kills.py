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

from torvyn._durable.disk.salvage import inspect_store

PROCESS = Path(__file__).with_name("swap_process.py")
STEPS = ("init", "snapshot", "restore", "process", "teardown")
COUNT = 1500
RATE = 1000
"""Elements per second."""


def run_with_kill(folder: Path, step: str, number: int, *mode: str) -> int:
    """Lets the process kill itself at a step, then finish in a second run. Returns how many
    elements may have come twice."""
    command = [sys.executable, str(PROCESS), str(folder), str(COUNT), str(RATE)]
    killed = subprocess.run([*command, step, str(number), *mode], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    unsettled = count_unsettled(folder)
    subprocess.run([*command, "none", "0", *mode], timeout=60, check=True)
    return unsettled


def count_unsettled(folder: Path) -> int:
    """Elements that wait in the store for an acknowledgement, and those that were delivered but not
    acknowledged to the broker. How many these are depends on how busy the disk is."""
    waiting = inspect_store(folder / "state" / "main" / "flow.db").elements
    delivered, acknowledged = (folder / name for name in ("delivered", "acknowledged"))
    lines = delivered.read_text().splitlines() if delivered.exists() else []
    settled = int(acknowledged.read_text()) if acknowledged.exists() else 0
    return sum(waiting.values()) + max(len(lines) - settled, 0)


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_lost_when_a_swap_is_killed(tmp_path: Path, step: str) -> None:
    unsettled = run_with_kill(tmp_path, step, random.Random(step).randint(1, 2))

    check_delivered(tmp_path, unsettled)


def check_delivered(folder: Path, unsettled: int) -> None:
    """Everything came, nothing that was acknowledged came twice, and the state missed nothing."""
    lines = (folder / "delivered").read_text().splitlines()
    delivered = [json.loads(line) for line in lines]
    numbers = [each["seq"] for each in delivered]

    assert set(numbers) == set(range(COUNT))
    assert len(numbers) - COUNT <= unsettled
    # The state is never older than what was handed over: no count is given twice.
    first: dict[int, int] = {}
    for each in delivered:
        assert first.setdefault(each["seen"], each["seq"]) == each["seq"]


def test_an_idempotent_sink_has_every_element_once(tmp_path: Path) -> None:
    run_with_kill(tmp_path, "restore", 1, "idempotent")

    with closing(sqlite3.connect(tmp_path / "delivered.db")) as rows:
        found = [row[0] for row in rows.execute("SELECT seq FROM elements ORDER BY seq")]
    assert found == list(range(COUNT))


@pytest.mark.parametrize("step", [*STEPS, "restarted"])
def test_nothing_is_lost_when_a_restart_with_another_graph_is_killed(
    tmp_path: Path, step: str
) -> None:
    unsettled = run_with_kill(tmp_path, step, random.Random(step).randint(1, 3), "graph")

    check_delivered(tmp_path, unsettled)
