"""What does a pool of servers add per chunk and to the first text, compared with one upstream?

python -m benches.engine_pool [--rounds R] [--tokens N] [--streams N] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from typing import Final

from benches.arrivals import first_texts
from benches.harness import percentile, quartiles
from benches.load import Question, load, text_of
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import (
    OTHER_CORE,
    SERVER_CORE,
    ServerProcess,
    module,
    running,
    stay_off_the_server,
)
from benches.serving import CHAT
from benches.work_serving import right

BARE: Final = "`openai`"
SHORT, RATE, REQUESTS = 5, 100, 300
METHOD = """\
The same server, with the engine `openai` in front of one upstream, and with a pool of one and of
three of them; a block-list is in every path. The servers run on one core, one at a time, upstreams
and load on the other. A chunk is a chunk of the upstream that reached the client; {streams} answers
of {tokens} chunks run at a time; CPU is that of all threads of the server. The first text is timed
with {requests} answers of {short} chunks, {rate} per second. Rounds are interleaved; what is added
is the median of the differences to `openai` in the same round."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.engine_pool")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(**vars(options), requests=REQUESTS, rate=RATE, short=SHORT)
    question = "What does a pool of servers add, compared with one upstream?"
    report = Report("engine_pool", question, method.replace("\n", " "))
    stay_off_the_server()
    with contextlib.ExitStack() as stack:
        servers = _servers(stack, options.tokens)
        for name, server in servers.items():
            if text_of(server.port, CHAT) != right(options.tokens):
                raise AssertionError(f"{name} sent another text")
        _chunks(report, servers, options)
        _first(report, servers, options.rounds)
    publish(report, options.json)
    return 0


def _servers(stack: contextlib.ExitStack, tokens: int) -> dict[str, ServerProcess]:
    given = module("benches.upstream", "--port", "{port}", "--tokens", str(tokens))
    upstreams = [stack.enter_context(running(given, OTHER_CORE)) for _ in range(3)]
    urls = [f"http://127.0.0.1:{each.port}/v1" for each in upstreams]
    ours = module("benches.peers.torvyn_serve", "--port", "{port}")
    paths = {
        BARE: ["--upstream", urls[0]],
        "a pool of 1": ["--members", urls[0]],
        "a pool of 3": ["--members", *urls],
    }
    return {
        name: stack.enter_context(running([*ours, *words], SERVER_CORE))
        for name, words in paths.items()
    }


def _chunks(report: Report, servers: dict[str, ServerProcess], options: argparse.Namespace) -> None:
    costs: dict[str, list[float]] = {name: [] for name in servers}
    rates: dict[str, list[float]] = {name: [] for name in servers}
    chunks = options.streams * options.tokens
    for number in range(options.rounds):
        say(f"chunks: round {number + 1} of {options.rounds}")
        for name, server in servers.items():
            before_s = server.cpu_s()
            rates[name].append(chunks / load(server.port, CHAT, options.streams).wall_s)
            costs[name].append((server.cpu_s() - before_s) / chunks * 1e6)
    table = Table(("engine", "us of CPU per chunk", "quartiles", "added, us", "chunks per second"))
    for name, values in costs.items():
        low, middle, high = quartiles(values)
        rate = f"{statistics.median(rates[name]):,.0f}"
        added = _added(values, costs[BARE], "+.2f") if name != BARE else ""
        table.rows.append((name, f"{middle:.2f}", f"{low:.2f} - {high:.2f}", added, rate))
    report.tables.append(table)
    report.data["us_a_chunk"], report.data["chunks_a_second"] = costs, rates


def _first(report: Report, servers: dict[str, ServerProcess], rounds: int) -> None:
    question = Question(CHAT.path, {**CHAT.body, "max_tokens": SHORT}, b'"content":" ')
    found: dict[str, dict[float, list[float]]] = {n: {0.5: [], 0.99: []} for n in servers}
    for number in range(rounds):
        say(f"first text: round {number + 1} of {rounds}")
        for name, server in servers.items():
            texts = first_texts(server.port, question, RATE, REQUESTS)
            for part, values in found[name].items():
                values.append(percentile(texts, part) * 1e3)
    table = Table(("first text", "p50, ms", "added, ms", "p99, ms", "added, ms"))
    for name, parts in found.items():
        row = [name]
        for part, values in parts.items():
            added = _added(values, found[BARE][part], "+.3f") if name != BARE else ""
            row += [f"{statistics.median(values):.2f}", added]
        table.rows.append(row)
    report.tables.append(table)
    report.data["first_text_ms"] = {
        name: {f"p{part * 100:g}": values for part, values in parts.items()}
        for name, parts in found.items()
    }


def _added(values: list[float], bare: list[float], form: str) -> str:
    middle = statistics.median(a - b for a, b in zip(values, bare, strict=True))
    return format(middle, form)


if __name__ == "__main__":
    sys.exit(main())
