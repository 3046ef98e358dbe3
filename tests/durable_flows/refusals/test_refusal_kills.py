"""kill -9 at any step: each element is delivered or a dead letter, and no letter twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scale import sample
from test_refused_elements import letters_of

PROCESS = Path(__file__).with_name("refusing_process.py")
COUNT = 12
REFUSED = [n for n in range(COUNT) if n % 3 == 0]
STEPS = sample([3, 6], full=list(range(1, 26)))


def run(folder: Path, step: int, *mode: str) -> bool:
    """Whether it ran to its end before the step."""
    folders = os.pathsep.join([str(PROCESS.parent), str(PROCESS.parent.parent)])
    env = {**os.environ, "TORVYN_RUNTIME__STATE_DIR": str(folder / "state"), "PYTHONPATH": folders}
    command = [sys.executable, str(PROCESS), str(folder), str(COUNT), str(step), *mode]
    done = subprocess.run(command, env=env, timeout=60, stderr=subprocess.PIPE, check=False)
    assert done.returncode in (0, 9), done.stderr.decode()
    return done.returncode == 0


def delivered(folder: Path) -> Counter[int]:
    path = folder / "delivered"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(json.loads(line)["seq"] for line in lines)


def refused(folder: Path) -> list[int]:
    return [json.loads(data)["seq"] for _, _, data in letters_of(folder / "state")[1]]


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_nothing_and_repeats_no_letter(tmp_path: Path, step: int) -> None:
    if not run(tmp_path, step):
        assert run(tmp_path, 0)

    assert sorted(delivered(tmp_path)) == [n for n in range(COUNT) if n not in REFUSED]
    # A source that waits for acknowledgements sends again what was not acknowledged.
    assert sorted(set(refused(tmp_path))) == REFUSED
    sequences = [number for _, number, _ in letters_of(tmp_path / "state")[1]]
    assert len(set(sequences)) == len(sequences)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_puts_each_letter_back_once(tmp_path: Path, step: int) -> None:
    assert run(tmp_path, 0)
    before = delivered(tmp_path)

    if not run(tmp_path, step, "accept"):
        assert run(tmp_path, 0, "accept")

    back = delivered(tmp_path) - before
    assert sorted(back) == REFUSED
    # At most what the sink had accepted and the flow had not noted yet comes twice.
    assert sum(back.values()) <= 2 * len(REFUSED)
    (account,) = letters_of(tmp_path / "state")[0].nodes()
    assert (account.waiting, account.set_aside, account.returned) == (0, len(REFUSED), len(REFUSED))
