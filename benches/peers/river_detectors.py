"""River's anomaly detectors, on the readings of its own package.

It lives in a virtual environment of its own, because it needs SciPy:

    python -m venv ~/.cache/torvyn/river
    ~/.cache/torvyn/river/bin/pip install river

`RIVER_PYTHON` names another Python. This file is also the program that runs there: it evaluates one
detector as river's documentation does and prints its scores as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOW = "not installed: pip install river in a venv at ~/.cache/torvyn/river"
NAMES = ("HalfSpaceTrees", "LODA")


def python() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = Path(os.environ.get("RIVER_PYTHON") or cache / "torvyn" / "river" / "bin/python")
    return found if found.exists() else None


def evaluate(interpreter: Path, name: str) -> dict[str, Any]:
    """`scores` of every reading, `version`, and the microseconds of CPU time per reading, `us`."""
    done = subprocess.run([interpreter, __file__, name], capture_output=True, text=True, check=True)
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def main(name: str) -> None:
    import river
    from river import anomaly, datasets, preprocessing

    # The seed and the scaler of river's documentation of this dataset.
    model = preprocessing.MinMaxScaler() | getattr(anomaly, name)(seed=42)
    readings = [reading for reading, _ in datasets.Shuttle()]
    scores = []
    started = time.process_time()
    for reading in readings:
        scores.append(model.score_one(reading))
        model.learn_one(reading)
    us = (time.process_time() - started) / len(readings) * 1e6
    print(json.dumps({"version": river.__version__, "us": us, "scores": scores}))


if __name__ == "__main__":
    main(sys.argv[1])
