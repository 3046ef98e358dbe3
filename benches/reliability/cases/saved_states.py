"""What does a flow lose of the states of its components, and what does saving them write?"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from benches import saved_states
from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import TESTS

HISTORIES, STEPS = 40, 100
"""Per round."""
KEYS, SECONDS = 40_000, 15.0


def histories(rounds: int) -> Measurement:
    for folder in (TESTS, TESTS / "durable", TESTS / "suite"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    from state_stores import OnDisk

    from state_histories import StateHistory

    counts = []
    for number in range(rounds):
        failures = 0
        for seed in range(number * HISTORIES, (number + 1) * HISTORIES):
            with tempfile.TemporaryDirectory() as folder:
                store = OnDisk(Path(folder) / "flow.db")
                try:
                    StateHistory(store, random.Random(seed)).go(STEPS)
                except AssertionError:
                    failures += 1
                finally:
                    store.store.close()
        counts.append(float(failures))
    return Measurement(sum(counts), counts, f"{HISTORIES * rounds} histories of {STEPS} steps")


def _written(carrier: str, rounds: int) -> Measurement:
    if carrier == "nats" and not (Path(sys.executable).parent / "nats-server").exists():
        raise SkipCase("needs nats-server")
    options = argparse.Namespace(seconds=SECONDS, folder=None)
    found = [saved_states.in_folder("paced", carrier, KEYS, options) for _ in range(rounds)]
    cpu = sorted(cpu for _, cpu in found)[rounds // 2]
    samples = [written for written, _ in found]
    return Measurement(max(samples), samples, f"{cpu:.1%} of a core")


def written_to_disk(rounds: int) -> Measurement:
    return _written("disk", rounds)


def written_to_broker(rounds: int) -> Measurement:
    return _written("nats", rounds)


_HOW = "40 readings per second, all that the process or the server writes"
CASES = [
    Case(
        "states.histories",
        "kill -9, cuts that fail, cuts that fail and are stored",
        "random updates, removals, evictions and swaps",
        0,
        "restarts with another state than that of the last cut",
        histories,
    ),
    Case("states.disk", "windows of 40,000 keys on the disk", _HOW, 1, "MB/s", written_to_disk),
    Case("states.nats", "windows of 40,000 keys on a broker", _HOW, 1, "MB/s", written_to_broker),
]
