"""Is an element lost or repeated when a component is swapped while its flow runs?"""

from __future__ import annotations

import functools
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from benches.harness import percentile
from benches.reliability.case import Case, Measurement
from benches.reliability.guests import TESTS

RATE, SWAPS = 5_000, 200
"""Elements per second, and swaps per round."""
CHANGES = 20
"""Restarts with another graph per round."""
KILL_COUNT, KILL_RATE, BATCH = 3_000, 4_000, 500
STEPS = ("init", "snapshot", "restore", "process", "teardown")
"""Between which a process is killed, each in every round."""


@functools.cache
def _live(rounds: int) -> list[tuple[float, list[float], float]]:
    """Lost, repeated or disordered elements, the pauses and the growth in MiB, per round."""
    from benches.swap_workload import MODES, run_swapped

    results = []
    for seed in range(rounds):
        run = run_swapped(RATE, SWAPS, seed, MODES[seed % len(MODES)])
        wrong = float(run.lost + run.repeated + run.disordered)
        results.append((wrong, run.pauses_ms, run.growth_bytes / 2**20))
    return results


def live(rounds: int) -> Measurement:
    samples = [wrong for wrong, _, _ in _live(rounds)]
    return Measurement(sum(samples), samples, f"{SWAPS * rounds} swaps")


def pause_ms(rounds: int) -> Measurement:
    samples = sorted(pause for _, pauses, _ in _live(rounds) for pause in pauses)
    detail = f"p50 {percentile(samples, 0.5):.2f} ms, largest {samples[-1]:.2f} ms"
    return Measurement(percentile(samples, 0.99), samples, detail)


def memory_mib(rounds: int) -> Measurement:
    samples = [growth for _, _, growth in _live(rounds)]
    return Measurement(max(samples), samples)


def failing(rounds: int) -> Measurement:
    from benches.swap_workload import FAULTS, MODES, run_failing

    samples = []
    for _ in range(rounds):
        for mode in MODES:
            run = run_failing(RATE, mode)
            samples.append(float(run.lost + run.repeated + run.disordered))
    return Measurement(sum(samples), samples, f"{len(samples) * len(MODES) * len(FAULTS)} swaps")


@functools.cache
def _killed(rounds: int) -> list[tuple[float, float]]:
    """Lost and repeated elements, per kill."""
    results = []
    for seed in range(rounds):
        for step in STEPS:
            number = random.Random(seed).randint(1, 2)
            with tempfile.TemporaryDirectory() as folder:
                _kill(Path(folder), step, number)
                lines = Path(folder, "delivered").read_text().splitlines()
            numbers = [json.loads(line)["seq"] for line in lines]
            unique = len(set(numbers))
            results.append((float(KILL_COUNT - unique), float(len(numbers) - unique)))
    return results


def _kill(folder: Path, step: str, number: int, *mode: str) -> None:
    """Kills the process at a step, and lets it finish in a second run."""
    program = TESTS / "durable_flows" / "swap_process.py"
    command = [sys.executable, str(program), str(folder), str(KILL_COUNT), str(KILL_RATE)]
    killed = subprocess.run(
        [*command, step, str(number), *mode], stdout=subprocess.DEVNULL, timeout=120, check=False
    )
    if killed.returncode != -signal.SIGKILL:
        raise AssertionError(f"the process was not killed at `{step}`")
    command += ["none", "0", *mode]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=120, check=True)


def killed(rounds: int) -> Measurement:
    samples = [lost for lost, _ in _killed(rounds)]
    return Measurement(sum(samples), samples, f"{len(samples)} kills")


def killed_repeated(rounds: int) -> Measurement:
    samples = [repeated for _, repeated in _killed(rounds)]
    return Measurement(max(samples), samples, f"{sum(samples):g} after {len(samples)} kills")


def killed_idempotent(rounds: int) -> Measurement:
    samples = []
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            _kill(Path(folder), STEPS[seed % len(STEPS)], 1, "idempotent")
            with closing(sqlite3.connect(Path(folder, "delivered.db"))) as rows:
                found = [row[0] for row in rows.execute("SELECT seq FROM elements")]
        lost, repeated = KILL_COUNT - len(set(found)), len(found) - len(set(found))
        samples.append(float(lost + repeated))
    return Measurement(sum(samples), samples, f"{len(samples)} kills")


def restarted(rounds: int) -> Measurement:
    from benches.restart_workload import run_restarted

    samples = [float(run_restarted(RATE, CHANGES, seed).wrong) for seed in range(rounds)]
    return Measurement(sum(samples), samples, f"{CHANGES * rounds} restarts")


def restart_killed(rounds: int) -> Measurement:
    """Lost elements, and those that came twice beyond one batch."""
    samples = []
    for seed in range(rounds):
        for step in (*STEPS, "restarted"):
            with tempfile.TemporaryDirectory() as folder:
                _kill(Path(folder), step, random.Random(seed).randint(1, 2), "graph")
                lines = Path(folder, "delivered").read_text().splitlines()
            numbers = [json.loads(line)["seq"] for line in lines]
            unique = len(set(numbers))
            too_often = max(len(numbers) - unique - BATCH, 0)
            samples.append(float(KILL_COUNT - unique + too_often))
    return Measurement(sum(samples), samples, f"{len(samples)} kills")


_HOW = f"{SWAPS} swaps per round at {RATE:,} elements/s, of source, processor and sink"

CASES = [
    Case(
        "swap.live",
        "a component is swapped while its flow runs",
        _HOW,
        0,
        "lost, repeated or in disorder",
        live,
    ),
    Case("swap.live.pause", "the same", "p99 of the pause of the node", 20, "ms", pause_ms),
    Case("swap.live.memory", "the same", "growth after the 20th swap", 4, "MiB", memory_mib),
    Case(
        "swap.failing",
        "a component is swapped for one that raises or hangs",
        f"9 pairs of run modes, {RATE:,} elements/s: init, restore, first and fifth element",
        0,
        "lost, repeated or in disorder",
        failing,
    ),
    Case(
        "swap.killed",
        "kill -9 between two steps of a swap",
        f"{len(STEPS)} kills per round, in a flow with a disk edge: {', '.join(STEPS)}",
        0,
        "lost",
        killed,
    ),
    Case(
        "swap.killed.repeated",
        "the same",
        "elements delivered twice, at most one batch",
        BATCH,
        "per kill",
        killed_repeated,
    ),
    Case(
        "swap.killed.idempotent",
        "the same, with an idempotent sink",
        "a `sqlite` sink with a key, one kill per round",
        0,
        "rows missing or twice",
        killed_idempotent,
    ),
    Case(
        "swap.graph",
        "a flow restarts from its checkpoint with another graph",
        f"{CHANGES} restarts per round at {RATE:,} elements/s, behind a disk edge",
        0,
        "lost, repeated or in disorder",
        restarted,
    ),
    Case(
        "swap.graph.killed",
        "kill -9 between two steps of a restart with another graph",
        f"{len(STEPS) + 1} kills per round: {', '.join(STEPS)}, restarted",
        0,
        "lost, or twice beyond one batch",
        restart_killed,
    ),
]
