"""Windows survive kill -9: a restart continues every open window of every key."""

import json
import random
import subprocess
import sys
from pathlib import Path

from window_oracle import fixed, rendered
from window_process import SENSORS, reading

SCRIPT = Path(__file__).parent / "window_process.py"
COUNT = 9_000


def run_and_kill(folder, after_windows):
    """Runs the process and kills it after so many windows. True: it ended by itself before."""
    command = [sys.executable, str(SCRIPT), str(folder), str(COUNT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for number, line in enumerate(process.stdout):
            if line == "done\n":
                return True
            if number == after_windows:
                process.kill()
    return False


def expected():
    found = []
    for sensor in SENSORS:
        own = [reading(number) for number in range(COUNT) if reading(number)["sensor"] == sensor]
        found += rendered(fixed([(one["at"], one["v"]) for one in own], 100, 100), sensor)
    return found


def test_a_killed_flow_continues_its_windows_and_none_is_split(tmp_path):
    rng = random.Random(11)
    kills = 0
    while not run_and_kill(tmp_path, after_windows=rng.randint(40, 110)):
        kills += 1
    sent = set((tmp_path / "windows").read_text().splitlines())
    assert kills >= 2
    assert sorted(sent) == sorted(json.dumps(one, separators=(",", ":")) for one in expected())
