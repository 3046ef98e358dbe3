"""Is every element accounted for, however a flow ends? Do limits hold when a component blocks?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benches.reliability.case import Case, Measurement

SEEDS = 2_000
LIMIT_S = 0.2
SIMULATION = Path(__file__).parents[3] / "tests" / "simulation"

MANIFEST = """
[torvyn]
name = "stuck"
version = "0.1.0"
contract_version = "0.1.0"

[[component]]
name = "stuck"
path = "stuck"

[flow.main.nodes.source]
component = "scripted"
[flow.main.nodes.stuck]
component = "stuck"
[flow.main.nodes.sink]
component = "null"

[[flow.main.edges]]
from = "source"
to = "stuck"
[[flow.main.edges]]
from = "stuck"
to = "sink"
"""
COMPONENT = """
import threading, torvyn

class Stuck(torvyn.Processor):
    run = {run!r}

    def init(self, config):
        {init}

    def process(self, element):
        {process}
"""
LOCK, SPIN = "threading.Event().wait()", "while True: pass"


def violations(rounds: int) -> Measurement:
    """Each round has its own seeds."""
    program = "import json, sys; from seed_runs import check_seeds; "
    program += "print(json.dumps(len(check_seeds(int(sys.argv[1]), int(sys.argv[2])))))"
    samples = []
    for number in range(rounds):
        command = [sys.executable, "-c", program, str(number * SEEDS), str(SEEDS)]
        done = subprocess.run(
            command, cwd=SIMULATION, capture_output=True, text=True, check=True, timeout=600
        )
        samples.append(float(json.loads(done.stdout)))
    return Measurement(sum(samples), samples, f"{rounds * SEEDS:,} seeds")


def _late_s(run: str, phase: str, block: str) -> float:
    """How long `torvyn run --timeout` runs beyond its limit."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "stuck")
        project.mkdir()
        Path(folder, "Torvyn.toml").write_text(MANIFEST)
        calls = {"init": "pass", "process": "pass", phase: block}
        (project / "component.py").write_text(COMPONENT.format(run=run, **calls))
        started = time.perf_counter()
        command = [sys.executable, "-m", "torvyn", "run", "--timeout", f"{LIMIT_S}s"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
        took_s = time.perf_counter() - started
    assert done.returncode == 1, done.stderr
    assert "node `stuck`" in done.stderr, done.stderr
    return took_s - LIMIT_S


def lateness(rounds: int) -> Measurement:
    cases = [
        (run, phase, block)
        for run in ("inline", "thread")
        for phase in ("init", "process")
        for block in (LOCK, SPIN)
    ]
    samples = [_late_s(*case) for _ in range(rounds) for case in cases]
    return Measurement(
        max(samples), samples, f"the worst of {len(samples)}, including the start of Python"
    )


CASES = (
    Case(
        "endings",
        "every ending of a flow",
        "random flows with a seeded scheduler: all run modes, policies, failures and endings",
        0,
        "violated laws",
        violations,
    ),
    Case(
        "blocked-component",
        "a component that blocks or spins",
        "in `init` or in a call, inline or on a thread, with `run --timeout 200ms`",
        5,
        "s after the limit",
        lateness,
    ),
)
