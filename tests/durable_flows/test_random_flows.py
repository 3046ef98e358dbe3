"""Random flows, ended in every way: nothing that was acknowledged is lost.

`RANDOM_FLOWS=500` runs more seeds, from `RANDOM_FLOWS_FIRST` on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from disk_faults import shim
from scale import sample

PROGRAM = Path(__file__).with_name("random_runs.py")
FIRST = int(os.environ.get("RANDOM_FLOWS_FIRST", "0"))
COUNT = int(os.environ.get("RANDOM_FLOWS", sample(4, full=24)))
STEP = sample(2, full=4)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, STEP))
def test_a_random_flow_loses_nothing_however_it_ends(tmp_path: Path, first: int) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(first), str(first + STEP)]
    environment = {**os.environ, "LD_PRELOAD": str(shim())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
