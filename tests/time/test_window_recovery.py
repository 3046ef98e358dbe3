"""Windows survive kill -9: a restart continues every open window of every key."""

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

from scale import sample
from window_oracle import fixed, rendered
from window_process import SENSORS, reading

SCRIPT = Path(__file__).parent / "window_process.py"
COUNT = 30_000
KILLS = sample(5, full=100)
"""After so many, the process may end; it ends before if it is quick."""
NEVER_S = 600.0


def run_and_kill(folder, after_s):
    """Runs the process and kills it so long after its first window. True: it ended before."""
    command = [sys.executable, str(SCRIPT), str(folder), str(COUNT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        killer = threading.Timer(after_s, process.kill)
        killer.start()
        is_done = "done\n" in process.stdout
        killer.cancel()
    return is_done


def expected():
    found = []
    for sensor in SENSORS:
        own = [one for one in map(reading, range(COUNT)) if one["sensor"] == sensor]
        found += rendered(fixed([(one["at"], one["v"]) for one in own], 100, 100), sensor)
    return found


def test_a_killed_flow_continues_its_windows_and_none_is_split(tmp_path):
    rng = random.Random(11)
    kills = 0
    while not run_and_kill(tmp_path, NEVER_S if kills == KILLS else rng.uniform(0.02, 0.1)):
        kills += 1
    sent = set((tmp_path / "windows").read_text().splitlines())
    assert kills >= 3
    assert sorted(sent) == sorted(json.dumps(one, separators=(",", ":")) for one in expected())
