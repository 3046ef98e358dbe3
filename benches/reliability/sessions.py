"""What holds when a server is killed in the middle of answers that are kept?"""

from __future__ import annotations

import functools
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.reliability.line import LeftOut, Line, Measured
from benches.reliability.setting import TESTS

KILLS = 20
"""A round."""


@functools.cache
def _killed(rounds: int) -> list[tuple[Any, float]]:
    if importlib.util.find_spec("granian") is None:
        raise LeftOut('pip install "torvyn[serve]"')
    sys.path.insert(0, str(TESTS / "faults"))
    from killed_servers import EXPECTED, killed_and_resumed

    found = []
    for seed in range(KILLS * rounds):
        with tempfile.TemporaryDirectory() as folder:
            told, took_s = killed_and_resumed(Path(folder), seed)
        wrong = int(told.text != EXPECTED or not told.is_over) + told.lost + told.doubles
        found.append((wrong, took_s))
    return found


def wrong(rounds: int) -> Measured:
    counts = [float(count) for count, _ in _killed(rounds)]
    return Measured(sum(counts), counts, f"{len(counts)} kills")


def resume_ms(rounds: int) -> Measured:
    took = sorted(took_s * 1000 for _, took_s in _killed(rounds))
    return Measured(took[len(took) // 2], took, f"worst {took[-1]:.1f} ms")


LINES = [
    Line(
        "sessions.killed",
        "kill -9 of a server while a stateful answer is read",
        "killed at a random delta, another process goes on, the client comes back",
        0,
        "lost, doubled or other",
        wrong,
    ),
    Line(
        "sessions.resume",
        "the same",
        "from the client's request to its first frame, a new process",
        50,
        "ms, median",
        resume_ms,
    ),
]
