"""What becomes of sessions that are stopped, beside a greedy tenant, and when servers end?"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import TESTS

STOPS = 100
"""Answers that are stopped, per store and round."""
KILLS = 20
"""Kills after a stop, per store and round."""


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    places = (TESTS, TESTS / "faults", TESTS / "transport", TESTS / "transport" / "sessions")
    sys.path[:0] = [str(place) for place in places]
    from cluster_servers import broker

    from nats_server import find_server

    if find_server() is None:
        raise SkipCase("nats-server is not installed")
    with broker(folder) as started:
        yield started.url


def stopped(rounds: int) -> Measurement:
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder)) as url:
        from stopped_streams import goes_on_after_a_kill, stop_many

        wrong = []
        for number in range(rounds):
            for store in ("", f"{folder}/sessions-{number}.db", f"{url}/stops{number}"):
                asyncio.run(stop_many(store, STOPS, number))
            for seed in range(KILLS):
                for store in (f"{folder}/{number}-{seed}.db", f"{url}/kills"):
                    killing = goes_on_after_a_kill(store, seed, is_cancelled=bool(seed % 2))
                    wrong.append(float(asyncio.run(killing)))
    detail = f"{3 * STOPS * rounds} stops at 3 stores, {len(wrong)} kills after a stop"
    return Measurement(sum(wrong), wrong, detail)


def harmed(rounds: int) -> Measurement:
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder)) as url:
        from greedy_tenants import harm
        from keyed_server import Keyed

        counts = []
        for number in range(rounds):
            place = Path(folder) / f"keys{number}"
            place.mkdir()
            counts.append(float(asyncio.run(harm(Keyed(place), f"{url}/greedy{number}", number))))
    return Measurement(sum(counts), counts, "two servers, a broker, prompts of up to 200 KB")


@functools.cache
def _silences(how: signal.Signals, rounds: int) -> list[tuple[int, float]]:
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder)):
        from cluster_servers import silences

        return list(silences(Path(folder), how, 4 * rounds))


def _silence_s(how: signal.Signals, rounds: int) -> Measurement:
    found = _silences(how, rounds)
    wrong = sum(count for count, _ in found)
    took_s = sorted(silence_s for _, silence_s in found)
    detail = f"median {took_s[len(took_s) // 2]:.2f} s; {wrong} lost, repeated or wrong"
    return Measurement(took_s[-1] if not wrong else float("inf"), took_s, detail)


CASES = [
    Case(
        "sessions.stopped",
        "stop, cancel or interrupt while frames are written; kill -9 behind the answer to `DELETE`",
        "at random moments; in memory, in a file, at a broker of two servers",
        0,
        "answers that go on",
        stopped,
    ),
    Case(
        "sessions.tenants",
        "a tenant fills what it can of the session store",
        "another tenant asks for four streams, its limit, and for six more",
        0,
        "streams of the other tenant refused or beyond its limit",
        harmed,
    ),
    Case(
        "cluster.server-silence",
        "kill -9 of the server that generates, while the client reads at another one",
        "the other server takes over; between two frames of the client",
        2,
        "s, worst",
        functools.partial(_silence_s, signal.SIGKILL),
    ),
    Case(
        "cluster.server-hung",
        "SIGSTOP of the server that generates, while the client reads at another one",
        "the other server takes over; between two frames of the client",
        2,
        "s, worst",
        functools.partial(_silence_s, signal.SIGSTOP),
    ),
]
