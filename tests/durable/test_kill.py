"""A process that is killed while it commits loses nothing that a commit returned from."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from scale import sample
from workload import LOG, OPTIONS, judge, position

from torvyn._durable.disk.store import DurableStore

WORKLOAD = Path(__file__).with_name("workload.py")


def kill_after(path: Path, seed: int, lines: int) -> int:
    """Kills the process at a random moment after some commits; returns the last position."""
    command = [sys.executable, str(WORKLOAD), str(path), str(seed), "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        complete = [line for line in process.stdout if line.endswith("\n")]
    return int(complete[-1]) if complete else 0


@pytest.mark.parametrize("seed", range(sample(1, full=3)))
def test_kill_9_loses_no_commit(tmp_path: Path, seed: int) -> None:
    path, dice = tmp_path / "flow.db", random.Random(seed)
    for round in range(sample(2, full=4)):
        said = kill_after(path, seed * 100 + round, dice.randint(1, 150))

        with DurableStore.open(path, OPTIONS) as store:
            assert position(store) >> 32 >= said >> 32
            assert store.acknowledged(LOG) + 1 >= said & 0xFFFFFFFF
            assert judge(store)[1] == set()
            assert store.state.name == "ok"
