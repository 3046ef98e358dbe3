"""Field components in a flow that is killed: nothing is lost, and what can be stored once is."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from scale import sample
from waiting import eventually

import torvyn

MANIFEST = """\
[torvyn]
name = "field"
version = "0.1.0"
contract_version = "0.1.0"

[runtime]
state_dir = "state"

[flow.main]
checkpoint = "20ms"

[flow.main.nodes.log]
component = "tail"
config = {{ path = "in.jsonl", poll = "5ms" }}

[flow.main.nodes.store]
component = "sqlite"
config = {{ path = "out.db", once = {once} }}

[[flow.main.edges]]
from = "log"
to = "store"
carrier = "{carrier}"
"""
ROUNDS, LINES = sample(2, full=4), 400


def stored(folder):
    try:
        database = sqlite3.connect(f"file:{folder / 'out.db'}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return []
    try:
        return [n for (n,) in database.execute("SELECT n FROM elements ORDER BY rowid")]
    except sqlite3.OperationalError:
        return []
    finally:
        database.close()


def append(folder, first):
    with open(folder / "in.jsonl", "a") as file:
        file.writelines(f'{{"n": {n}}}\n' for n in range(first, first + LINES))


def run_and_kill(folder, goal):
    """Runs the flow until so many rows are stored, and kills it at once."""
    environment = {**os.environ, "PYTHONPATH": str(Path(torvyn.__file__).parents[1])}
    command = [sys.executable, "-m", "torvyn", "run"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=environment, **quiet) as process:
        try:
            eventually(lambda: len(set(stored(folder))) >= goal)
        finally:
            process.send_signal(signal.SIGKILL)


def rounds(folder, rotates):
    """Each round is killed when half of its lines are stored; the last one when all are."""
    for number in range(ROUNDS):
        append(folder, number * LINES)
        if rotates and number == 1:
            (folder / "in.jsonl").rename(folder / "in.jsonl.1")
        run_and_kill(folder, number * LINES + LINES // 2)
    run_and_kill(folder, ROUNDS * LINES)
    return stored(folder)


def test_a_file_is_followed_through_kill_9(tmp_path):
    (tmp_path / "Torvyn.toml").write_text(MANIFEST.format(once="false", carrier="memory"))
    # Not rotated: a process that dies before its first checkpoint has saved no position.
    assert sorted(set(rounds(tmp_path, rotates=False))) == list(range(ROUNDS * LINES))


def test_behind_a_disk_edge_each_element_is_stored_once_and_in_order(tmp_path):
    (tmp_path / "Torvyn.toml").write_text(MANIFEST.format(once="true", carrier="disk"))
    assert rounds(tmp_path, rotates=True) == list(range(ROUNDS * LINES))
