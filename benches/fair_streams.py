"""Do paced streams keep their pace beside neighbours that want everything?

    python -m benches.fair_streams [--rounds R] [--json]

A hundred streams of twenty tokens per second are read as they come, while others take what they
can get from the same server: clients that ask for long answers and never read, clients that read as
fast as the server sends, and a burst of short answers. Each token contains the time at which its
engine emitted it, so a stream that falls behind is seen at its engine too.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import selectors
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from benches.harness import percentile
from benches.load import PATIENCE_S, Question, connected
from benches.open_streams import allow_files, gateway, opened, serving
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import SERVER_CORE, ServerProcess, module, running, stay_off_the_server
from benches.work_serving import MODEL, RATE_FLOW

PACED, RATE, TOKENS = 100, 20.0, 120
UNREAD, READ, BURST = 150, 16, 500
LONG: Final = 200_000
"""Tokens of an answer that nobody ends."""
GOAL_KEPT, GOAL_GAP_MS, GOAL_HEALTH_MS = 0.98, 100.0, 50.0
PACED_QUESTION = Question("/v1/streams", {"prompt": "Hi", "flow": RATE_FLOW}, b'"text":')
LONG_QUESTION = Question("/v1/streams", {"prompt": "Hi", "flow": MODEL}, b'"text":')
SHORT_QUESTION = Question(
    "/v1/streams", {"prompt": "Hi", "flow": MODEL, "max_tokens": 20}, b'"text":'
)
STAMP: Final = re.compile(rb" (\d{19})")
_HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
_HEALTH_S: Final = 0.05
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
METHOD = """\
{paced} streams of {rate:g} tokens per second for {seconds:g} s on a server with one core, through
a block-list; the others are on the other core. Kept: tokens that arrived while {tokens} per stream
were due, as a share of these. Gap: the time between two tokens of a stream, at the reader; the
worst of all streams, and of 99 % of the tokens. Health: `GET /healthz` over an open connection,
every {health:g} ms. Never read: {unread} clients ask for an answer of {long:,} tokens. Read: {read}
clients read such answers as fast as they come. Burst: {burst} requests for 20 tokens each at one
moment. The gateway has these answers from an upstream. Medians of {rounds} rounds, by turns."""


@dataclass(slots=True)
class Pace:
    """What the paced streams and the health check saw in one round."""

    arrived: int = 0
    gaps_ms: list[float] = field(default_factory=list)
    health_ms: list[float] = field(default_factory=list)

    @property
    def kept(self) -> float:
        return self.arrived / (PACED * TOKENS)

    @property
    def health_p99_ms(self) -> float:
        return percentile(self.health_ms, 0.99)

    def figures(self) -> tuple[float, float, float, float]:
        gaps_ms = self.gaps_ms
        return self.kept, percentile(gaps_ms, 0.99), max(gaps_ms), self.health_p99_ms


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.fair_streams")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(
        paced=PACED,
        rate=RATE,
        seconds=TOKENS / RATE,
        tokens=TOKENS,
        health=_HEALTH_S * 1000,
        unread=UNREAD,
        read=READ,
        burst=BURST,
        long=LONG,
        rounds=options.rounds,
    )
    question = "Do paced streams keep their pace beside others?"
    report = Report("fair_streams", question, method.replace("\n", " "))
    stay_off_the_server()
    for name in NEIGHBOURS:
        _case(report, name, options.rounds)
    publish(report, options.json)
    return 0


def _case(report: Report, name: str, rounds: int) -> None:
    neighbours = NEIGHBOURS[name]
    found: dict[str, list[tuple[float, ...]]] = {server: [] for server in SERVERS}
    for number in range(rounds):
        for server in SERVERS:
            say(f"{neighbours.title}: {server}, round {number + 1} of {rounds}")
            found[server].append(one_round(server, name).figures())
    columns = ("server", "kept", "gap p99, ms", "worst gap, ms", "health p99, ms")
    table = Table(columns, title=neighbours.title)
    for server, rows in found.items():
        kept, gap, worst, health = map(statistics.median, zip(*rows, strict=True))
        figures = (f"{kept:.1%}", f"{gap:.0f}", f"{worst:.0f}", f"{health:.1f}")
        table.rows.append((server, *figures))
    report.tables.append(table)
    report.data[name] = found


def one_round(server: str, beside: str) -> Pace:
    """What paced streams of that server saw beside those neighbours."""
    allow_files(PACED + UNREAD + BURST + 256)
    with SERVERS[server]() as process, NEIGHBOURS[beside].start(process.port):
        return pace(process.port)


# The servers

Start = Callable[[], contextlib.AbstractContextManager[ServerProcess]]
_RATE: Final = ("--rate", str(RATE), "--rate-tokens", str(2 * TOKENS))
_ANSWERS: Final = ("--tokens", str(LONG), *_RATE)


def _torvyn() -> contextlib.AbstractContextManager[ServerProcess]:
    return serving(*_ANSWERS, "--write-timeout", "600")


@contextlib.contextmanager
def _gateway() -> Iterator[ServerProcess]:
    """The long answers and the short ones come from an upstream."""
    with gateway("--tokens", str(LONG), server=_RATE) as (server, _):
        yield server


def _starlette() -> contextlib.AbstractContextManager[ServerProcess]:
    command = module("benches.peers.starlette_stream", "--port", "{port}", "--ready", *_ANSWERS)
    return running(command, SERVER_CORE)


SERVERS: Final[dict[str, Start]] = {
    "Torvyn": _torvyn,
    "Torvyn as a gateway": _gateway,
    "Starlette on uvicorn": _starlette,
}


# The neighbours


class Neighbours(NamedTuple):
    title: str
    start: Callable[[int], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _nobody(port: int) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _unread(port: int) -> Iterator[None]:
    with opened(port, UNREAD) as socks:
        for sock in socks:
            sock.sendall(LONG_QUESTION.bytes(port))
        yield


@contextlib.contextmanager
def _apart(work: Callable[[int, float], None], port: int) -> Iterator[None]:
    """In a process that yields the core to the measurement."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=(port, PATIENCE_S))
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _read_on(port: int, limit_s: float) -> None:
    """Reads long answers as fast as they come, another one behind each that ends."""
    os.nice(19)
    with selectors.DefaultSelector() as waiting:
        for _ in range(READ):
            _ask(port, LONG_QUESTION, waiting)
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            for key, _ in waiting.select(1.0):
                sock: socket.socket = key.fileobj  # type: ignore[assignment]
                if not sock.recv(1 << 18):
                    waiting.unregister(sock)
                    sock.close()
                    _ask(port, LONG_QUESTION, waiting)


def _burst(port: int, limit_s: float) -> None:
    """Sends all requests at once, in the middle of the measurement."""
    os.nice(19)
    with opened(port, BURST) as socks, selectors.DefaultSelector() as waiting:
        time.sleep(TOKENS / RATE / 2)
        for sock in socks:
            sock.sendall(SHORT_QUESTION.bytes(port))
            waiting.register(sock, selectors.EVENT_READ)
        until_s = time.monotonic() + limit_s
        while waiting.get_map() and time.monotonic() < until_s:
            for key, _ in waiting.select(1.0):
                if not key.fileobj.recv(1 << 16):  # type: ignore[union-attr]
                    waiting.unregister(key.fileobj)


def _ask(port: int, question: Question, waiting: selectors.BaseSelector) -> None:
    sock = connected(port)
    sock.sendall(question.bytes(port))
    waiting.register(sock, selectors.EVENT_READ)


NEIGHBOURS: Final[dict[str, Neighbours]] = {
    "alone": Neighbours("alone", _nobody),
    "unread": Neighbours(f"beside {UNREAD} clients that never read", _unread),
    "read": Neighbours(
        f"beside {READ} clients that read all they get", lambda port: _apart(_read_on, port)
    ),
    "burst": Neighbours(f"beside a burst of {BURST} requests", lambda port: _apart(_burst, port)),
}


# The measurement


def pace(port: int, streams: int = PACED) -> Pace:
    """Reads the paced streams for the time in which their tokens are due."""
    found = Pace()
    with opened(port, streams) as socks, selectors.DefaultSelector() as waiting:
        for sock in socks:
            sock.sendall(PACED_QUESTION.bytes(port))
            waiting.register(sock, selectors.EVENT_READ, _Stream(found))
        with _HealthCheck(port, found, waiting) as health:
            until_s = time.perf_counter() + PATIENCE_S
            while not found.gaps_ms and time.perf_counter() < until_s:
                _receive(waiting, 1.0)
            began_s = time.perf_counter()
            found.arrived = 0
            while (now_s := time.perf_counter()) < began_s + TOKENS / RATE:
                health.ask(now_s)
                _receive(waiting, _HEALTH_S / 2)
            for key in waiting.get_map().values():
                key.data.stop(time.perf_counter())
    return found


def _receive(waiting: selectors.BaseSelector, wait_s: float) -> None:
    for key, _ in waiting.select(wait_s):
        data = key.fileobj.recv(65536)  # type: ignore[union-attr]
        if not data:
            raise AssertionError("an answer ended early")
        key.data.take(data, time.perf_counter())


class _Stream:
    """One paced stream."""

    def __init__(self, found: Pace) -> None:
        self._found = found
        self._rest = b""
        self._last_s = 0.0

    def take(self, data: bytes, now_s: float) -> None:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        count = len(STAMP.findall(data[:end]))
        self._found.arrived += count
        if not count:
            return
        if self._last_s:
            self._found.gaps_ms += [(now_s - self._last_s) * 1e3, *[0.0] * (count - 1)]
        self._last_s = now_s

    def stop(self, now_s: float) -> None:
        """A gap that has not ended counts as well."""
        if self._last_s:
            self._found.gaps_ms.append((now_s - self._last_s) * 1e3)


class _HealthCheck:
    """Asks over one connection, again and again."""

    def __init__(self, port: int, found: Pace, waiting: selectors.BaseSelector) -> None:
        self._found = found
        self._request = _HEALTH % port
        self._sock = connected(port)
        self._got = b""
        self._asked_s = self._next_s = 0.0
        waiting.register(self._sock, selectors.EVENT_READ, self)

    def __enter__(self) -> _HealthCheck:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def stop(self, now_s: float) -> None:
        """So does a request without an answer."""
        if self._asked_s:
            self._found.health_ms.append((now_s - self._asked_s) * 1e3)

    def ask(self, now_s: float) -> None:
        if not self._asked_s and now_s >= self._next_s:
            self._asked_s = now_s
            self._sock.sendall(self._request)

    def take(self, data: bytes, now_s: float) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(f"the health check got {head[:100]!r}")
        length = _LENGTH.search(head)
        if end and length is not None and len(body) >= int(length[1]):
            self._found.health_ms.append((now_s - self._asked_s) * 1e3)
            self._got, self._asked_s, self._next_s = b"", 0.0, now_s + _HEALTH_S


if __name__ == "__main__":
    sys.exit(main())
