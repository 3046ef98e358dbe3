"""Are stateful answers lost or repeated when a server is killed?"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import TESTS

KILLS = 20
"""Kills per round."""


@functools.cache
def _killed(rounds: int) -> list[tuple[Any, float]]:
    sys.path.insert(0, str(TESTS / "faults"))
    from killed_servers import EXPECTED, killed_and_resumed

    results = []
    for seed in range(KILLS * rounds):
        with tempfile.TemporaryDirectory() as folder:
            answer, took_s = killed_and_resumed(Path(folder), seed)
        wrong = int(answer.text != EXPECTED or not answer.is_over) + answer.lost + answer.doubles
        results.append((wrong, took_s))
    return results


def wrong(rounds: int) -> Measurement:
    counts = [float(count) for count, _ in _killed(rounds)]
    return Measurement(sum(counts), counts, f"{len(counts)} kills")


def resume_ms(rounds: int) -> Measurement:
    took = sorted(took_s * 1000 for _, took_s in _killed(rounds))
    return Measurement(took[len(took) // 2], took, f"worst {took[-1]:.1f} ms")


CASES = [
    Case(
        "sessions.killed",
        "kill -9 of a server while a stateful answer is read",
        "killed at a random delta; another process continues, and the client resumes",
        0,
        "lost, repeated or wrong",
        wrong,
    ),
    Case(
        "sessions.resume",
        "the same",
        "from the client's request to its first frame, in a new process",
        50,
        "ms, median",
        resume_ms,
    ),
]
