"""What does a WebSocket cost the server beside server-sent events?

    python -m benches.websockets [--rounds R] [--tokens N] [--streams S] [--sockets N] [--json]

The same answers over both; and sockets that do nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from benches.harness import quartiles
from benches.load import Question, load, text_of
from benches.open_streams import allow_files
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import (
    SERVER_CORE,
    ServerProcess,
    module,
    running,
    stay_off_the_server,
)
from benches.websocket_load import SocketQuestion, idle_socket, text_of_socket
from benches.work_serving import right

TIMES, GOAL_KIB = 1.2, 25.0
EVENTS = Question("/v1/streams", {"prompt": "Hi"}, b'"delta",')
SOCKETS = SocketQuestion("/v1/ws", {"prompt": "Hi"}, b'"delta",', b'"type":"end"')
METHOD = """\
{streams} concurrent answers of {tokens} tokens each, one chunk per token, through a block-list; in
our own frames, over server-sent events and over one WebSocket per answer. The server runs on one
core, and a process on the other core reads. CPU is the user and system time of all threads of the
server from /proc, including the requests and the handshakes. Medians and quartiles of {rounds}
interleaved rounds; ratios are computed within a round. The text is checked before it is timed.
Memory: {sockets:,} WebSockets that were accepted and do nothing; the growth of the server's
resident set per socket, after two hundred others have ended."""


@dataclass(slots=True)
class Entry:
    name: str
    question: Question
    us: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.websockets")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--sockets", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(**vars(options)).replace("\n", " ")
    report = Report("websockets", "What does a WebSocket cost the server?", method)
    stay_off_the_server()
    allow_files(options.sockets)
    _chunks(report, options)
    _memory(report, options)
    publish(report, options.json)
    return 0


def _serve(*arguments: str) -> contextlib.AbstractContextManager[ServerProcess]:
    command = module("benches.peers.torvyn_serve", "--port", "{port}", *arguments)
    return running(command, SERVER_CORE)


def _chunks(report: Report, options: argparse.Namespace) -> None:
    entries = [Entry("server-sent events", EVENTS), Entry("WebSocket", SOCKETS)]
    with _serve("--tokens", str(options.tokens), "--paced") as server:
        _check(entries, server, right(options.tokens))
        for number in range(options.rounds):
            say(f"chunks: round {number + 1} of {options.rounds}")
            for entry in entries:
                before_s = server.cpu_s()
                loaded = load(server.port, entry.question, options.streams)
                entry.us.append((server.cpu_s() - before_s) / loaded.chunks * 1e6)
    _tell(report, entries)


def _check(entries: list[Entry], server: ServerProcess, text: str) -> None:
    for entry in entries:
        read = text_of if entry.question is EVENTS else text_of_socket
        if read(server.port, entry.question) != text:
            raise AssertionError(f"{entry.name} sent a different text")


def _tell(report: Report, entries: list[Entry]) -> None:
    table = Table(("carried by", "us of CPU per chunk", "quartiles", "of events", "goal"))
    events = entries[0]
    for entry in entries:
        low, middle, high = quartiles(entry.us)
        ratio = statistics.median(a / b for a, b in zip(entry.us, events.us, strict=True))
        goal = ""
        if entry is not events:
            goal = f"<= {TIMES:g} x: {'met' if ratio <= TIMES else 'NOT met'}"
        figures = (f"{middle:.2f}", f"{low:.2f} - {high:.2f}", f"{ratio:.2f} x", goal)
        table.rows.append((entry.name, *figures))
        report.data[entry.name] = entry.us
    report.tables.append(table)


def _memory(report: Report, options: argparse.Namespace) -> None:
    say("memory")
    kib = [_idle_kib(options.sockets) for _ in range(options.rounds)]
    low, middle, high = quartiles(kib)
    goal = f"<= {GOAL_KIB:g}: {'met' if middle <= GOAL_KIB else 'NOT met'}"
    table = Table(("", "KiB per idle WebSocket", "quartiles", "goal"), title="Memory")
    table.rows.append(("torvyn", f"{middle:.1f}", f"{low:.1f} - {high:.1f}", goal))
    report.data["idle_kib"] = kib
    report.tables.append(table)


def _idle_kib(sockets: int) -> float:
    with _serve() as server:
        _open(server, 200)
        return _open(server, sockets)


def _open(server: ServerProcess, sockets: int) -> float:
    """KiB that the server used per socket, while all were open."""
    before = server.resident_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(sockets):
            stack.enter_context(idle_socket(server.port))
        return (server.resident_bytes() - before) / sockets / 1024


if __name__ == "__main__":
    sys.exit(main())
