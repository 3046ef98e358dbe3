"""Two servers that share their sessions, one of which is killed: for tests and figures."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from killed_servers import EXPECTED, Told, ask, come_back, cut, server

sys.path.insert(0, str(Path(__file__).parents[1]))
from nats_server import NatsServer

Running = tuple[subprocess.Popen[str], str]


@contextmanager
def broker(folder: Path) -> Iterator[NatsServer]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    started = NatsServer(port, folder / "broker")
    started.start()
    try:
        yield started
    finally:
        started.stop()


def kills(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[int, float, float]]:
    """Kills the server that generates a stream while its client reads it; the client comes back to
    another one. Yields for each kill how much was lost, repeated or wrong, how long the first frame
    took from the client's request, and the longest silence between two frames of the client."""
    rng = random.Random(seed)
    with broker(folder) as at:
        store = ("--session-store", at.url)
        with ExitStack() as servers:
            current = servers.enter_context(_warm_server(folder, store))
            for _ in range(count):
                following = servers.enter_context(_warm_server(folder, store))
                yield _killed_and_resumed(current, following[1], rng.randrange(1, 60))
                current = following


def silences(folder: Path, how: signal.Signals, count: int) -> Iterator[tuple[int, float]]:
    """Sends a signal to the server that generates a stream while its client reads it at another
    one. Yields for each how much was lost, repeated or wrong, and the longest silence between two
    frames of the client."""
    with broker(folder) as at:
        store = ("--session-store", at.url)
        for number in range(count):
            with (
                _warm_server(folder, store, "10ms") as owner,
                _warm_server(folder, store, "10ms") as other,
            ):
                yield _read_elsewhere(owner, other[1], how, 5 + number % 20)


def _read_elsewhere(owner: Running, url: str, how: signal.Signals, at: int) -> tuple[int, float]:
    told, times = Told(), [time.perf_counter()]
    with ask(owner[1]) as answer:
        told.take(answer, stop_at=at)
    with come_back(url, told) as answer:
        told.take(answer, stop_at=at + 5)
        owner[0].send_signal(how)
        for line in answer:
            told.take([line])
            times.append(time.perf_counter())
    wrong = int(told.text != EXPECTED or not told.is_over) + told.lost + told.doubles
    return wrong, max(after - before for before, after in pairwise(times[1:]))


@contextmanager
def _warm_server(folder: Path, store: tuple[str, str], delay: str = "2ms") -> Iterator[Running]:
    """A server that has answered before, as one that other clients use."""
    with server(folder, *store, delay=delay) as (process, url):
        with ask(url) as answer:
            answer.read()
        yield process, url


def _killed_and_resumed(current: Running, url: str, at: int) -> tuple[int, float, float]:
    told = Told()
    with ask(current[1]) as answer:
        told.take(answer, stop_at=at)
        current[0].kill()
        killed_s = time.perf_counter()
        with cut():
            told.take(answer)
    return _resumed(url, told, killed_s)


def _resumed(url: str, told: Told, killed_s: float) -> tuple[int, float, float]:
    began_s = time.perf_counter()
    with come_back(url, told) as answer:
        answer.readline()
        took_s = time.perf_counter() - began_s
        told.take(answer)
    wrong = int(told.text != EXPECTED or not told.is_over) + told.lost + told.doubles
    return wrong, took_s, began_s + took_s - killed_s
