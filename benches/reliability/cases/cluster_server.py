"""Are stateful answers lost or repeated when one of several servers is killed?"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import TESTS

KILLS = 20
"""Kills per round."""


@functools.cache
def _kills(rounds: int) -> list[tuple[int, float, float]]:
    sys.path[:0] = [str(TESTS / "faults"), str(TESTS)]
    from cluster_servers import kills

    from nats_server import find_server

    if find_server() is None:
        raise SkipCase("nats-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        return list(kills(Path(folder), KILLS * rounds))


def wrong(rounds: int) -> Measurement:
    counts = [float(count) for count, *_ in _kills(rounds)]
    return Measurement(sum(counts), counts, f"{len(counts)} kills")


def resume_ms(rounds: int) -> Measurement:
    took = sorted(took_s * 1000 for _, took_s, _ in _kills(rounds))
    middle = took[len(took) // 2]
    return Measurement(took[-1], took, f"median {middle:.1f} ms")


CASES = [
    Case(
        "cluster.server",
        "kill -9 of a server while a client reads a stateful answer, sessions at a broker",
        "killed at a random delta; the client resumes at another server, which takes over",
        0,
        "lost, repeated or wrong",
        wrong,
    ),
    Case(
        "cluster.server-resume",
        "the same",
        "from the client's request to its first frame, at another server that has answered before",
        100,
        "ms, worst",
        resume_ms,
    ),
]
