"""kill -9 of a flow that holds a generation: the answer continues, or the flow fails as lost.

Two generations are never joined.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from answer_process import ANSWER

from torvyn._durable.disk.salvage import inspect_store

PROCESS = Path(__file__).with_name("answer_process.py")
KILLS = 5


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROCESS), str(folder), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill_after(process: subprocess.Popen[str], pause_s: float) -> None:
    """Kills it after the pause, unless it has ended."""
    with process:
        try:
            assert process.wait(pause_s) == 0
        except subprocess.TimeoutExpired:
            process.kill()


def ends_before(folder: Path, words: tuple[str, ...], pause_s: float) -> bool:
    """Whether a run ended before it was killed. Its process may not have ended then: what tells is
    the store, which keeps no state of a run that has ended."""
    before = saved(folder)
    kill_after(start(folder, *words), pause_s)
    after = saved(folder)
    return after[0] == 0 and after != before


def saved(folder: Path) -> tuple[int, int]:
    """How many segments have a state in the store, and how many elements it was given."""
    file = folder / "state" / "main" / "flow.db"
    # Killed before it had a store, or while it made one.
    with suppress(sqlite3.OperationalError), closing(connect(file)) as store:
        (elements,) = store.execute("SELECT sum(next) FROM logs").fetchone()
        return len(inspect_store(file, is_quick=True).segments), elements or 0
    return 0, 0


def connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)


def finish(folder: Path, *words: str) -> str:
    """Runs it to its end; what it says."""
    with start(folder, *words) as process:
        return process.communicate(timeout=60)[0].strip()


def wait_for_text(folder: Path) -> None:
    while not (folder / "delivered").exists() or not delivered(folder):
        time.sleep(0.002)


def delivered(folder: Path) -> str:
    """The text. A crash may deliver an element again, which its sequence tells."""
    elements: dict[int, str] = {}
    for line in (folder / "delivered").read_text().splitlines():
        sequence, text = json.loads(line)
        assert elements.setdefault(sequence, text) == text
    return "".join(text for _, text in sorted(elements.items()))


@pytest.mark.parametrize("shape", ["source", "processor"])
@pytest.mark.parametrize("speed", ["slow-engine", "slow-sink"])
def test_an_answer_continues_after_kills(tmp_path: Path, shape: str, speed: str) -> None:
    rng = random.Random(f"{shape}{speed}")
    words = (shape, "same", speed)
    # A run that ends in order leaves no state: the next one begins a new answer.
    answers = sum(ends_before(tmp_path, words, rng.uniform(0.1, 0.4)) for _ in range(KILLS))
    assert finish(tmp_path, *words) == "done"
    assert delivered(tmp_path) == ANSWER * (answers + 1)


@pytest.mark.parametrize("shape", ["source", "processor"])
@pytest.mark.parametrize("seeded", [(), ("seeded",)])
def test_an_answer_that_cannot_continue_is_lost_and_never_joined(
    tmp_path: Path, shape: str, seeded: tuple[str, ...]
) -> None:
    first = start(tmp_path, shape, "other", *seeded)
    wait_for_text(tmp_path)
    kill_after(first, 0.0)
    assert first.returncode == -signal.SIGKILL
    for _ in range(2):
        assert finish(tmp_path, shape, "other", *seeded) == "session.generation-lost"
    assert {word.partition("w")[0] for word in delivered(tmp_path).split()} == {f"p{first.pid}"}


@pytest.mark.parametrize("shape", ["source", "processor"])
def test_the_next_run_continues_an_answer_that_a_signal_interrupted(
    tmp_path: Path, shape: str
) -> None:
    first = start(tmp_path, shape, "same")
    wait_for_text(tmp_path)
    first.send_signal(signal.SIGTERM)
    with first:
        first.wait(30)
    assert finish(tmp_path, shape, "same") == "done"
    assert delivered(tmp_path) == ANSWER
