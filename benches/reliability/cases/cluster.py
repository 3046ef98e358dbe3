"""Is the output of a flow on a cluster that of one process when a part of it is killed?"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

from benches.cluster import scenarios
from benches.cluster.machines import machines, missing
from benches.harness import percentile
from benches.reliability.case import Case, Measurement, SkipCase

LEAST_ROUNDS = 20
WORKER_GAP_S = 3.0


@functools.cache
def _killed(part: str, rounds: int) -> list[scenarios.Killed]:
    reason = missing()
    if reason is not None:
        raise SkipCase(reason)
    with tempfile.TemporaryDirectory() as folder, machines(Path(folder)) as cluster:
        return [scenarios.kill(cluster, part, seed) for seed in range(max(rounds, LEAST_ROUNDS))]


def differences(part: str, rounds: int) -> Measurement:
    """Lost and wrong outputs, after removing those with an id that was delivered before."""
    found = _killed(part, rounds)
    samples = [float(run.lost + run.wrong) for run in found]
    gaps = sorted(run.gap_s for run in found)
    repeated = max(run.repeated for run in found)
    detail = (
        f"{len(found)} kills; longest pause of a key p50 {percentile(gaps, 0.5):.2f} s, p99 "
        f"{percentile(gaps, 0.99):.2f} s; at most {repeated} repeated; {_load(found)}"
    )
    return Measurement(sum(samples), samples, detail)


def worker_gap_s(rounds: int) -> Measurement:
    found = _killed("worker", rounds)
    gaps = sorted(run.gap_s for run in found)
    detail = f"p50 {percentile(gaps, 0.5):.2f} s; {_load(found)}"
    return Measurement(percentile(gaps, 0.99), gaps, detail)


def _load(found: list[scenarios.Killed]) -> str:
    """The gaps are mostly the start of a process, which a busy machine delays."""
    loads = sorted(run.load for run in found)
    return f"load {loads[0]:.0f} to {loads[-1]:.0f} on {os.cpu_count()} cores"


FAULTS = {
    "worker": "the process of a group is killed",
    "raylet": "the raylet of a machine is killed",
    "broker": "nats-server is killed",
    "driver": "the command is killed, and called again",
}
CASES = [
    *(
        Case(
            f"cluster.{part}",
            fault,
            "outputs that are lost or differ from one process",
            0,
            "",
            functools.partial(differences, part),
        )
        for part, fault in FAULTS.items()
    ),
    Case(
        "cluster.worker-gap",
        FAULTS["worker"],
        "longest time without an output of a key, p99",
        WORKER_GAP_S,
        "s",
        worker_gap_s,
    ),
]
