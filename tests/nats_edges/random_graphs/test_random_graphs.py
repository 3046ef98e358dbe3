"""Random flows over a broker, whole and in segments, with kills: the output is that of one process.

`RANDOM_GRAPHS=200` runs more seeds, from `RANDOM_GRAPHS_FIRST` on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scale import sample

PROGRAM = Path(__file__).with_name("nats_graph_runs.py")
FIRST = int(os.environ.get("RANDOM_GRAPHS_FIRST", "0"))
COUNT = int(os.environ.get("RANDOM_GRAPHS", sample(2, full=16)))
STEP = sample(1, full=4)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, STEP))
def test_a_random_flow_gives_what_one_process_in_memory_gives(tmp_path: Path, first: int) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(first), str(first + STEP)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
