"""What does a gRPC message cost the server?

    python -m benches.grpc_messages [--rounds R] [--tokens N] [--streams S] [--json]

A scripted engine, a block-list and many concurrent calls of `Generate`: Torvyn's server is compared
with gRPC's own server for Python. The server has one core; the client is another process on the
other core.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import statistics
import sys
from collections.abc import Sequence

from benches.grpc_load import load, text_of
from benches.peers import distribution_version
from benches.question import cannot_run, publish
from benches.report import Report
from benches.server_entries import Entry, measure, tell
from benches.server_process import module, stay_off_the_server
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
    from torvyn.v1 import inference_pb2 as pb

    request = pb.GenerateRequest(prompt="Hi").SerializeToString()
    for title, connections in (("A connection per call", options.streams), ("Four connections", 4)):
        entries = _entries(options.tokens)
        put_load = functools.partial(
            load, request=request, streams=options.streams, connections=connections
        )
        measure(entries, options.rounds, text_of, put_load)
        tell(report, title, entries, ("goal",), _judge)
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


def _judge(entry: Entry) -> tuple[str]:
    met = "met" if statistics.median(entry.us) <= GOAL_US else "NOT met"
    return (f"<= {GOAL_US:g} us: {met}" if entry.name.startswith("torvyn") else "",)


if __name__ == "__main__":
    sys.exit(main())
