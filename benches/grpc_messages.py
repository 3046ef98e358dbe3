"""What does a gRPC message cost the server?

    python -m benches.grpc_messages [--rounds R] [--tokens N] [--streams S] [--json]

A scripted engine, a block-list and many concurrent calls of `Generate`: Torvyn's server is compared
with gRPC's own server for Python. The server has one core; the client is another process on the
other core.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from benches.grpc_load import load, text_of
from benches.harness import quartiles
from benches.peers import distribution_version
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import SERVER_CORE, module, running, stay_off_the_server
from benches.work_serving import answer, is_guarded_right, right

GOAL_US = 10.0
METHOD = """\
{streams} concurrent calls of Generate with answers of {tokens} tokens each; one word in seventeen
is on a block-list of twenty words. The servers run one at a time on one core, and a process on the
other core reads; it allows any amount of data and only counts messages. CPU is the user and system
time of all threads of the server from /proc, including the {streams} calls, divided by the
messages. Medians and quartiles of {rounds} interleaved rounds. The text of every server is checked
with gRPC's own client before it is timed. The engine waits for one turn of the loop before each
token, so every server sends one message per token. Torvyn writes messages that follow within 5 ms
of the last write of their call together, which happens here because the calls produce as fast as
they can."""


@dataclass(slots=True)
class Entry:
    name: str
    command: list[str]
    text: str
    us: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    load_share: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.grpc_messages")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run() or importlib.util.find_spec("grpc") is None:
        return 2
    assert is_guarded_right()
    method = METHOD.format(**vars(options)).replace("\n", " ")
    report = Report("grpc_messages", "What does a gRPC message cost the server?", method)
    report.versions["grpcio"] = f"grpcio {distribution_version('grpcio')}"
    stay_off_the_server()
    for title, connections in (("A connection per call", options.streams), ("Four connections", 4)):
        entries = _entries(options.tokens)
        _measure(entries, options, connections)
        _tell(report, title, entries)
    publish(report, options.json)
    return 0


def _entries(tokens: int) -> list[Entry]:
    given = ["--port", "{port}", "--tokens", str(tokens)]
    ours = module("benches.peers.torvyn_serve", *given, "--paced")
    peer = module("benches.peers.grpcio_stream", *given)
    said, bare = right(tokens), "".join(answer(tokens))
    return [
        Entry("torvyn", ours, said),
        Entry("torvyn without a guard", [*ours, "--bare"], bare),
        Entry("grpcio's aio server", peer, said),
        Entry("grpcio's aio server without a guard", [*peer, "--bare"], bare),
    ]


def _measure(entries: list[Entry], options: argparse.Namespace, connections: int) -> None:
    from torvyn.v1 import inference_pb2 as pb

    request = pb.GenerateRequest(prompt="Hi").SerializeToString()
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(running(entry.command, SERVER_CORE)) for entry in entries]
        for entry, server in zip(entries, servers, strict=True):
            say(f"checking {entry.name}")
            if text_of(server.port) != entry.text:
                raise AssertionError(f"{entry.name} sent a different text")
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for entry, server in zip(entries, servers, strict=True):
                before_s = server.cpu_s()
                loaded = load(server.port, request, options.streams, connections)
                entry.us.append((server.cpu_s() - before_s) / loaded.chunks * 1e6)
                entry.rates.append(loaded.chunks / loaded.wall_s)
                entry.load_share.append(loaded.cpu_s / loaded.wall_s)


def _tell(report: Report, title: str, entries: list[Entry]) -> None:
    columns = ("server", "us of CPU", "quartiles", "per second", "goal", "load's CPU")
    table = Table(columns, title=title)
    for entry in entries:
        low, middle, high = quartiles(entry.us)
        met = "met" if middle <= GOAL_US else "NOT met"
        goal = f"<= {GOAL_US:g} us: {met}" if entry.name.startswith("torvyn") else ""
        rate, share = statistics.median(entry.rates), statistics.median(entry.load_share)
        figures = (f"{middle:.2f}", f"{low:.2f} - {high:.2f}", f"{rate:,.0f}")
        table.rows.append((entry.name, *figures, goal, f"{share:.0%}"))
    report.tables.append(table)
    report.data[title] = {
        entry.name: {"us": entry.us, "a_second": entry.rates, "load_share": entry.load_share}
        for entry in entries
    }


if __name__ == "__main__":
    sys.exit(main())
