"""What does a streamed chunk cost the server?

    python -m benches.serving [--rounds R] [--tokens N] [--streams S] [--json]

A scripted engine, a block-list, server-sent events and many concurrent streams: Torvyn's server is
compared with Starlette on uvicorn with the same guard in Python, and with bare granian as the lower
bound. The server has one core; the client is another process on the other core.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from benches.harness import quartiles
from benches.load import Loaded, Question, load, text_of
from benches.peers import distribution_version
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import (
    SERVER_CORE,
    ServerProcess,
    module,
    running,
    stay_off_the_server,
)
from benches.work_serving import MODEL, answer, is_guarded_right, right

TIMES = 2.0
MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT = Question(
    "/v1/chat/completions", {"model": MODEL, "stream": True, "messages": MESSAGES}, b'"content":'
)
OWN = Question("/v1/streams", {"prompt": "Hi"}, b'"delta",')
METHOD = """\
{streams} concurrent answers of {tokens} tokens each; one word in seventeen is on a block-list of
twenty words. The servers run one at a time on one core, and a process on the other core reads. CPU
is the user and system time of all threads of the server from /proc, including the {streams}
requests. Medians and quartiles of {rounds} interleaved rounds; ratios are computed within a round.
The text of every server is checked before it is timed. The engine waits for one turn of the loop
before each token, so every server sends one chunk per token. Torvyn's native wire writes chunks
that follow within 5 ms of the last write of their stream together, which happens here because the
streams produce as fast as they can; the peers write each of them. In the last table the engine does
not wait: Torvyn sends up to 16 tokens that are ready together in one chunk, and the peer still
sends one chunk per token; that table counts tokens."""


@dataclass(slots=True)
class Entry:
    """A server, a request, and the figures of its rounds."""

    name: str
    command: list[str]
    question: Question
    text: str
    us: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    load_share: list[float] = field(default_factory=list)

    def add(self, loaded: Loaded, cpu_s: float, chunks: int) -> None:
        self.us.append(cpu_s / chunks * 1e6)
        self.rates.append(chunks / loaded.wall_s)
        self.load_share.append(loaded.cpu_s / loaded.wall_s)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.serving")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    assert is_guarded_right()
    method = METHOD.format(**vars(options)).replace("\n", " ")
    report = Report("serving", "What does a streamed chunk cost the server?", method)
    stay_off_the_server()
    report.versions["granian"] = f"granian {distribution_version('granian')}"
    for title, question in (("OpenAI's chunks", CHAT), ("Own frames", OWN)):
        entries = _entries(report, question, options.tokens)
        _measure(entries, options)
        _tell(report, title, entries)
    natural = _natural(options.tokens)
    _measure(natural, options, options.tokens * options.streams)
    _tell(report, "An engine that does not wait: tokens", natural)
    publish(report, options.json)
    return 0


def _arguments(tokens: int) -> list[str]:
    return ["--port", "{port}", "--tokens", str(tokens)]


def _entries(report: Report, question: Question, tokens: int) -> list[Entry]:
    given, said = _arguments(tokens), right(tokens)
    bare = "".join(answer(tokens))
    ours = module("benches.peers.torvyn_serve", *given, "--paced")
    floor = module("benches.peers.granian_stream", *given)
    entries = [Entry("torvyn", ours, question, said)]
    if _has_starlette():
        peer = module("benches.peers.starlette_stream", *given)
        entries.append(Entry("Starlette + uvicorn", peer, question, said))
        for name in ("starlette", "uvicorn", "uvloop"):
            report.versions[name] = f"{name} {distribution_version(name)}"
    else:
        report.left_out["Starlette + uvicorn"] = "starlette, uvicorn or uvloop is not installed"
    entries.append(Entry("torvyn without a guard", [*ours, "--bare"], question, bare))
    entries.append(Entry("bare granian, prepared chunks", floor, question, bare))
    return entries


def _natural(tokens: int) -> list[Entry]:
    given, said = _arguments(tokens), right(tokens)
    entries = [Entry("torvyn", module("benches.peers.torvyn_serve", *given), CHAT, said)]
    if _has_starlette():
        peer = module("benches.peers.starlette_stream", *given, "--ready")
        entries.append(Entry("Starlette + uvicorn", peer, CHAT, said))
    return entries


def _has_starlette() -> bool:
    return all(importlib.util.find_spec(name) for name in ("starlette", "uvicorn", "uvloop"))


def _measure(entries: list[Entry], options: argparse.Namespace, tokens: int | None = None) -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(running(entry.command, SERVER_CORE)) for entry in entries]
        for entry, server in zip(entries, servers, strict=True):
            say(f"checking {entry.name}")
            if text_of(server.port, entry.question) != entry.text:
                raise AssertionError(f"{entry.name} sent a different text")
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for entry, server in zip(entries, servers, strict=True):
                loaded, cpu_s = _loaded(server, entry.question, options.streams)
                entry.add(loaded, cpu_s, tokens or loaded.chunks)


def _loaded(server: ServerProcess, question: Question, streams: int) -> tuple[Loaded, float]:
    before_s = server.cpu_s()
    loaded = load(server.port, question, streams)
    return loaded, server.cpu_s() - before_s


def _tell(report: Report, title: str, entries: list[Entry]) -> None:
    columns = (
        "server",
        "us of CPU",
        "quartiles",
        "per second",
        "of the peer's",
        "goal",
        "load's CPU",
    )
    table = Table(columns, title=title)
    peer = next((entry for entry in entries if entry.name.startswith("Starlette")), None)
    for entry in entries:
        low, middle, high = quartiles(entry.us)
        times = goal = ""
        if peer is not None:
            ratio = statistics.median(a / b for a, b in zip(entry.rates, peer.rates, strict=True))
            times = f"{ratio:.2f} x"
            met = "met" if ratio >= TIMES else "NOT met"
            goal = f">= {TIMES:g} x: {met}" if entry.name == "torvyn" else ""
        rate, share = statistics.median(entry.rates), statistics.median(entry.load_share)
        figures = (f"{middle:.2f}", f"{low:.2f} - {high:.2f}", f"{rate:,.0f}")
        table.rows.append((entry.name, *figures, times, goal, f"{share:.0%}"))
    report.tables.append(table)
    report.data[title] = {
        entry.name: {"us": entry.us, "a_second": entry.rates, "load_share": entry.load_share}
        for entry in entries
    }


if __name__ == "__main__":
    sys.exit(main())
