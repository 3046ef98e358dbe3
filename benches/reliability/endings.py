"""Is every element accounted for, however a flow ends? And do limits hold, whoever blocks?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benches.reliability.line import Line, Measured

SEEDS = 2_000
LIMIT_S = 0.2
SIMULATION = Path(__file__).parents[2] / "tests" / "simulation"

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


def violations(rounds: int) -> Measured:
    """Each round has seeds of its own."""
    program = "import json, sys; from check import check_seeds; "
    program += "print(json.dumps(len(check_seeds(int(sys.argv[1]), int(sys.argv[2])))))"
    samples = []
    for number in range(rounds):
        command = [sys.executable, "-c", program, str(number * SEEDS), str(SEEDS)]
        done = subprocess.run(
            command, cwd=SIMULATION, capture_output=True, text=True, check=True, timeout=600
        )
        samples.append(float(json.loads(done.stdout)))
    return Measured(sum(samples), samples, f"{rounds * SEEDS:,} seeds")


def _late_s(run: str, phase: str, block: str) -> float:
    """How long after its limit `torvyn run --timeout` ends, with its start taken off."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder, "stuck")
        part.mkdir()
        Path(folder, "Torvyn.toml").write_text(MANIFEST)
        calls = {"init": "pass", "process": "pass", phase: block}
        (part / "component.py").write_text(COMPONENT.format(run=run, **calls))
        started = time.perf_counter()
        command = [sys.executable, "-m", "torvyn", "run", "--timeout", f"{LIMIT_S}s"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
        took_s = time.perf_counter() - started
    assert done.returncode == 1, done.stderr
    assert "node `stuck`" in done.stderr, done.stderr
    return took_s - LIMIT_S


def lateness(rounds: int) -> Measured:
    cases = [
        (run, phase, block)
        for run in ("inline", "thread")
        for phase in ("init", "process")
        for block in (LOCK, SPIN)
    ]
    samples = [_late_s(*case) for _ in range(rounds) for case in cases]
    return Measured(max(samples), samples, f"the worst of {len(samples)}, start of Python included")


LINES = (
    Line(
        "endings",
        "every ending of a flow",
        "random flows under a seeded scheduler: all run modes, policies, failures and endings",
        0,
        "broken laws",
        violations,
    ),
    Line(
        "blocked-component",
        "a component that blocks or spins",
        "in `init` or in a call, inline or on a thread, under `run --timeout 200ms`",
        5,
        "s after the limit",
        lateness,
    ),
)
