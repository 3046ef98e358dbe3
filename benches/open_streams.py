"""What do many open streams cost, and how late is a token among them?

    python -m benches.open_streams [--rounds R] [--json]

Each token contains the time at which the engine emitted it, so the reader measures what the guard,
the frames, the server and the sockets add. Memory is the server's, before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benches.harness import percentile, quartiles
from benches.load import PATIENCE_S, Question, connected
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict
from benches.server_process import (
    OTHER_CORE,
    SERVER_CORE,
    ServerProcess,
    module,
    running,
    stay_off_the_server,
)
from benches.work_serving import MODEL

STREAMS, RATE, SECONDS, OPEN = 500, 50.0, 4, 2_000
BESIDE = 9_500
"""Streams that are open and silent while the others speak."""
GOAL_MS, GOAL_KIB = 10.0, 28.0
OWN = Question("/v1/streams", {"prompt": "Hi", "flow": MODEL}, b'"text":')
QUIET = Question("/v1/streams", {"prompt": "Hi", "flow": "quiet"}, b'"text":')
STAMP = re.compile(rb'"text":"((?: \d{19})+)"')
METHOD = """\
Latency: {streams} streams of {rate:g} tokens per second each for {seconds} s, {beside:,} others
open beside them, the server on one core, the reader on the other; from the engine's `yield` to the
reader's `recv`, through a block-list. Percentiles of all tokens of a round except its first second,
medians of {rounds} rounds. Memory: {open:,} streams whose engines have not emitted a token yet, or
whose upstream has sent a head and no token; the growth of the server's resident set per stream,
after two hundred other streams have ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.open_streams")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(
        streams=STREAMS,
        rate=RATE,
        seconds=SECONDS,
        rounds=options.rounds,
        open=OPEN,
        beside=BESIDE,
    )
    question = "What do many open streams cost?"
    report = Report("open_streams", question, method.replace("\n", " "))
    stay_off_the_server()
    allow_files(max(STREAMS + BESIDE, 2 * OPEN) + 1024)
    _latency(report, options.rounds)
    _memory(report, options.rounds)
    publish(report, options.json)
    return 0


def allow_files(count: int) -> None:
    """Raises the limit of open files, here and in the servers that this starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 512
    if soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise RuntimeError(f"{needed} open files are needed, but only {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def serving(*arguments: str) -> contextlib.AbstractContextManager[ServerProcess]:
    command = module("benches.peers.torvyn_serve", "--port", "{port}", *arguments)
    return running(command, SERVER_CORE)


def _latency_server(tokens: int) -> contextlib.AbstractContextManager[ServerProcess]:
    most = str(STREAMS + BESIDE)
    return serving("--rate", str(RATE), "--tokens", str(tokens), "--quiet", "--max-streams", most)


def _latency(report: Report, rounds: int) -> None:
    found: dict[str, list[float]] = {"p50": [], "p99": [], "max": []}
    tokens, loads = int(RATE * SECONDS), []
    with _latency_server(tokens) as server, opened(server.port, BESIDE) as quiet:
        _begin(quiet, QUIET.bytes(server.port))
        for number in range(rounds):
            say(f"latency: round {number + 1} of {rounds}")
            before_s, began_s = server.cpu_s(), time.perf_counter()
            late_ms = delays_ms(server.port, STREAMS)
            loads.append((server.cpu_s() - before_s) / (time.perf_counter() - began_s))
            if len(late_ms) != STREAMS * tokens:
                raise AssertionError(f"{len(late_ms)} of {STREAMS * tokens} tokens arrived")
            kept = late_ms[len(late_ms) // SECONDS :]
            found["p50"].append(percentile(kept, 0.5))
            found["p99"].append(percentile(kept, 0.99))
            found["max"].append(max(kept))
    table = Table(("delay of a token", "ms", "quartiles", "goal"))
    for name, values in found.items():
        low, middle, high = quartiles(values)
        goal = verdict(middle, GOAL_MS) if name == "p99" else ""
        table.rows.append((name, f"{middle:.2f}", f"{low:.2f} - {high:.2f}", goal))
    table.rows.append(("load of the server's core", f"{quartiles(loads)[1]:.0%}", "", ""))
    report.tables.append(table)
    report.data["late_ms"], report.data["server_share"] = found, loads


def delays_ms(port: int, streams: int, question: Question = OWN) -> list[float]:
    """The delay of each token, in order of arrival."""
    asked, late = question.bytes(port), list[float]()
    with opened(port, streams) as socks, selectors.DefaultSelector() as waiting:
        for sock in socks:
            sock.sendall(asked)
            sock.setblocking(False)
            waiting.register(sock, selectors.EVENT_READ, bytearray())
        until = time.monotonic() + PATIENCE_S
        while waiting.get_map() and time.monotonic() < until:
            for key, _ in waiting.select(1.0):
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    waiting.unregister(key.fileobj)
                    continue
                now_ns = time.time_ns()
                key.data.extend(data)
                for match in STAMP.finditer(key.data):
                    late += [(now_ns - int(stamp)) / 1e6 for stamp in match[1].split()]
                del key.data[: key.data.rfind(b"\n") + 1]
    return late


@contextlib.contextmanager
def opened(
    port: int, streams: int, receive_bytes: int | None = None
) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connected(port, receive_bytes)) for _ in range(streams)]


def _memory(report: Report, rounds: int) -> None:
    table = Table(("an open stream", "KiB", "quartiles", "goal"), title="Memory")
    for name, start in WAITING.items():
        kib = []
        for number in range(rounds):
            say(f"memory, {name}: round {number + 1} of {rounds}")
            with start() as server:
                _open(server, 200)
                kib.append(_open(server, OPEN))
        low, middle, high = quartiles(kib)
        row = (name, f"{middle:.1f}", f"{low:.1f} - {high:.1f}")
        table.rows.append((*row, verdict(middle, GOAL_KIB)))
        report.data[f"{name}, KiB"] = kib
    report.tables.append(table)


def _slow() -> contextlib.AbstractContextManager[ServerProcess]:
    return serving("--rate", "0.0001", "--tokens", "1")


@contextlib.contextmanager
def gateway(
    *answers: str, server: Sequence[str] = ()
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """A gateway, and the upstream behind it."""
    with running(module("benches.upstream", "--port", "{port}", *answers), OTHER_CORE) as upstream:
        url = f"http://127.0.0.1:{upstream.port}/v1"
        with serving("--upstream", url, "--write-timeout", "600", *server) as gate:
            yield gate, upstream


@contextlib.contextmanager
def _waiting_gateway() -> Iterator[ServerProcess]:
    with gateway() as (server, _):
        yield server


WAITING: Final[dict[str, Callable[[], contextlib.AbstractContextManager[ServerProcess]]]] = {
    "waits for its first token": _slow,
    "waits for that of an upstream": _waiting_gateway,
}


def _open(server: ServerProcess, streams: int) -> float:
    """KiB that the server used per stream, while all were open."""
    before = server.resident_bytes()
    with opened(server.port, streams) as socks:
        _begin(socks, OWN.bytes(server.port))
        return (server.resident_bytes() - before) / streams / 1024


def _begin(socks: Sequence[socket.socket], asked: bytes) -> None:
    """Asks on each of them, and waits until all have begun."""
    for sock in socks:
        sock.sendall(asked)
    for sock in socks:
        got = b""
        while b'"start"' not in got:
            got += sock.recv(4096)


if __name__ == "__main__":
    sys.exit(main())
