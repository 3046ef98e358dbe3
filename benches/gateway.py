"""What does a gateway cost: chunks of an upstream through guards to clients?

    python -m benches.gateway [--rounds R] [--tokens N] [--streams S] [--json]

Torvyn with a block-list in front of an OpenAI upstream is compared with other gateways in front of
the same upstream, without a guard. Also measures the delay of the first token.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benches.arrivals import first_texts
from benches.harness import percentile, quartiles
from benches.load import Question, load, text_of
from benches.peers import crabllm_gateway, litellm_proxy
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
from benches.serving import CHAT
from benches.work_serving import answer, right

TIMES, CHUNK_US = 90.0, 7.0
PARTS = ((0.5, 0.7), (0.99, 2.0))
"""Percentiles of the first text, and their goals in ms."""
OURS, LITELLM, CRABLLM = "torvyn", "LiteLLM's proxy", "crabllm"
RELAY = "a relay that copies bytes"
PEERS = {LITELLM: litellm_proxy, CRABLLM: crabllm_gateway}
NOT_FOUND = {
    "Bifrost": "its npm package downloads the program from a host outside the registry, and the "
    "registry of Go modules has no version of its server with a checksum",
}
FEW = 10
"""LiteLLM gets a tenth of the streams: with all of them it would take minutes."""
RATE, REQUESTS = 100.0, 300
SHORT = 2
"""Chunks of the answers whose first text is timed: with long ones the upstream is still busy on the
core of the client when the first text arrives, and that is what would be measured."""
METHOD = """\
{streams} concurrent answers of {tokens} chunks each (a tenth of the streams for LiteLLM); the peers
run no guard. The gateways run one at a time on one core, upstream and load on the other. A chunk is
a chunk of the upstream that reached the client, in any number of pieces; CPU is that of all threads
from /proc. Medians and quartiles of {rounds} interleaved rounds, ratios within a round; all texts
are checked first. First text: {requests} requests on new connections, {rate:g} per second, by turns
through the gateway and to the upstream itself; the overhead is the difference of the percentiles of
a round, and the figure is the median of the rounds. The relay connects to the upstream for each
client and copies bytes, so it shows what a hop costs here. Answers of {short} chunks show the delay
of the gateway. With answers of {tokens}, sent as fast as possible, the upstream keeps the core busy
on which the client waits for the first of them."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.gateway")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(**vars(options), requests=REQUESTS, rate=RATE, short=SHORT)
    report = Report("gateway", "What does a gateway cost?", method.replace("\n", " "))
    stay_off_the_server()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = module("benches.upstream", "--port", "{port}", "--tokens", str(options.tokens))
        upstream = stack.enter_context(running(given, OTHER_CORE))
        gateways = _gateways(stack, report, folder, f"http://127.0.0.1:{upstream.port}/v1")
        _check(gateways, options.tokens)
        _chunks(report, gateways, options)
        relay = module("benches.peers.relay", "--port", "{port}")
        relay += ["--upstream-port", str(upstream.port)]
        # LiteLLM cannot answer so many requests.
        asked = {name: server for name, server in gateways.items() if name != LITELLM}
        asked[RELAY] = stack.enter_context(running(relay, SERVER_CORE))
        for chunks in (SHORT, options.tokens):
            _first(report, asked, upstream, options.rounds, chunks)
    publish(report, options.json)
    return 0


def _gateways(
    stack: contextlib.ExitStack, report: Report, folder: Path, url: str
) -> dict[str, ServerProcess]:
    ours = module("benches.peers.torvyn_serve", "--port", "{port}", "--upstream", url)
    found = {OURS: stack.enter_context(running(ours, SERVER_CORE))}
    report.left_out.update(NOT_FOUND)
    for name, peer in PEERS.items():
        program = peer.program()
        if program is None:
            report.left_out[name] = peer.HOW
            say(f"{name} is left out: {peer.HOW}")
            continue
        say(f"starting {name}")
        report.versions[name] = peer.version(program)
        command = peer.command(program, folder, url)
        found[name] = stack.enter_context(running(command, SERVER_CORE, env=peer.ENV))
    return found


def _check(gateways: dict[str, ServerProcess], tokens: int) -> None:
    for name, server in gateways.items():
        say(f"checking {name}")
        if text_of(server.port, CHAT) != (right(tokens) if name == OURS else _plain(tokens)):
            raise AssertionError(f"{name} sent another text")


def _plain(tokens: int) -> str:
    return "".join(answer(tokens))


def _chunks(
    report: Report, gateways: dict[str, ServerProcess], options: argparse.Namespace
) -> None:
    rates: dict[str, list[float]] = {name: [] for name in gateways}
    costs: dict[str, list[float]] = {name: [] for name in gateways}
    for number in range(options.rounds):
        say(f"chunks: round {number + 1} of {options.rounds}")
        for name, server in gateways.items():
            streams = options.streams // FEW if name == LITELLM else options.streams
            before_s = server.cpu_s()
            loaded = load(server.port, CHAT, streams)
            chunks = streams * options.tokens
            rates[name].append(chunks / loaded.wall_s)
            costs[name].append((server.cpu_s() - before_s) / chunks * 1e6)
    columns = ("gateway", "chunks per second", "quartiles", "us of CPU per chunk", "Torvyn's rate")
    table = Table(columns)
    for name, values in rates.items():
        low, middle, high = quartiles(values)
        cost = f"{statistics.median(costs[name]):.1f}"
        if name == OURS:
            cost = f"{cost}, {verdict(statistics.median(costs[name]), CHUNK_US)}"
        times = "" if name == OURS else _times(name, rates[OURS], values)
        table.rows.append((name, f"{middle:,.0f}", f"{low:,.0f} - {high:,.0f}", cost, times))
    report.tables.append(table)
    report.data["chunks_a_second"], report.data["us_a_chunk"] = rates, costs


def _times(name: str, ours: list[float], theirs: list[float]) -> str:
    times = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    if name != LITELLM:
        return f"{times:.2f} x"
    return f"{times:.0f} x, >= {TIMES:g}: {'met' if times >= TIMES else 'NOT met'}"


def _first(
    report: Report,
    asked: dict[str, ServerProcess],
    upstream: ServerProcess,
    rounds: int,
    chunks: int,
) -> None:
    """Through the gateways, and from the upstream itself."""
    added: dict[str, list[list[float]]] = {name: [[] for _ in PARTS] for name in asked}
    for number in range(rounds):
        say(f"first text of {chunks} chunks: round {number + 1} of {rounds}")
        direct = first_texts(upstream.port, _question(chunks), RATE, REQUESTS)
        for name, server in asked.items():
            question = _question(chunks, is_compact=name == OURS)
            through = first_texts(server.port, question, RATE, REQUESTS)
            for (part, _), values in zip(PARTS, added[name], strict=True):
                values.append((percentile(through, part) - percentile(direct, part)) * 1e3)
    title = f"First text of answers of {chunks} chunks"
    table = Table(("added to the first text", "ms", "quartiles", "goal"), title=title)
    for name, parts in added.items():
        for (part, goal), values in zip(PARTS, parts, strict=True):
            low, middle, high = quartiles(values)
            row = (f"{name}, p{part * 100:g}", f"{middle:.2f}", f"{low:.2f} - {high:.2f}")
            table.rows.append((*row, verdict(middle, goal) if name == OURS else ""))
    report.tables.append(table)
    report.data[f"added_first_text_ms_{chunks}"] = {
        name: {f"p{part * 100:g}": v for (part, _), v in zip(PARTS, parts, strict=True)}
        for name, parts in added.items()
    }


def _question(chunks: int, *, is_compact: bool = False) -> Question:
    """Its mark is in the chunks with text: the one before them has only the role."""
    mark = b'"content":" ' if is_compact else b'"content": " '
    return Question(CHAT.path, {**CHAT.body, "max_tokens": chunks}, mark)


if __name__ == "__main__":
    sys.exit(main())
