"""What does a gateway cost: chunks of an upstream through guards to clients?

    python -m benches.gateway [--rounds R] [--tokens N] [--streams S] [--json]

Torvyn with a block-list in front of an OpenAI upstream is compared with LiteLLM's proxy in front of
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
from benches.peers import litellm_proxy
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

TIMES, CHUNK_US, P50_MS, P99_MS = 90.0, 7.0, 0.7, 2.0
FEW = 10
"""The proxy gets a tenth of the streams: with all of them it would take minutes."""
RATE, REQUESTS = 100.0, 300
# Chunks with text: the one before them has only the role.
UPSTREAM = Question(CHAT.path, CHAT.body, b'"content": " ')
THROUGH = Question(CHAT.path, CHAT.body, b'"content":" ')
METHOD = """\
{streams} concurrent answers of {tokens} chunks each (a tenth of the streams for LiteLLM, which runs
no guard). The gateways run one at a time on one core, upstream and load on the other. A chunk is a
chunk of the upstream that reached the client, in any number of pieces; CPU is that of all threads
from /proc. Medians and quartiles of {rounds} interleaved rounds, ratios within a round; all texts
are checked first. First text: {requests} requests on new connections, {rate:g} per second, by turns
through the gateway and to the upstream itself; the overhead is the difference of the percentiles of
a round, and the figure is the median of the rounds."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.gateway")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(**vars(options), requests=REQUESTS, rate=RATE).replace("\n", " ")
    report = Report("gateway", "What does a gateway cost?", method)
    stay_off_the_server()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = module("benches.upstream", "--port", "{port}", "--tokens", str(options.tokens))
        upstream = stack.enter_context(running(given, OTHER_CORE))
        gateways = _gateways(stack, report, folder, f"http://127.0.0.1:{upstream.port}/v1")
        _check(gateways, options.tokens)
        _chunks(report, gateways, options)
        _first(report, gateways, upstream, options.rounds)
    publish(report, options.json)
    return 0


def _gateways(
    stack: contextlib.ExitStack, report: Report, folder: Path, url: str
) -> dict[str, ServerProcess]:
    ours = module("benches.peers.torvyn_serve", "--port", "{port}", "--upstream", url)
    found = {"torvyn": stack.enter_context(running(ours, SERVER_CORE))}
    litellm = litellm_proxy.program()
    if litellm is None:
        report.left_out["LiteLLM's proxy"] = litellm_proxy.HOW
        say(f"LiteLLM's proxy is left out: {litellm_proxy.HOW}")
        return found
    say("starting LiteLLM's proxy")
    report.versions["litellm"] = litellm_proxy.version(litellm)
    command = litellm_proxy.command(litellm, folder, url)
    server = stack.enter_context(running(command, SERVER_CORE, env=litellm_proxy.QUIET))
    return found | {"LiteLLM's proxy": server}


def _check(gateways: dict[str, ServerProcess], tokens: int) -> None:
    for name, server in gateways.items():
        say(f"checking {name}")
        if text_of(server.port, CHAT) != (right(tokens) if name == "torvyn" else _plain(tokens)):
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
            streams = options.streams if name == "torvyn" else options.streams // FEW
            before_s = server.cpu_s()
            loaded = load(server.port, CHAT, streams)
            chunks = streams * options.tokens
            rates[name].append(chunks / loaded.wall_s)
            costs[name].append((server.cpu_s() - before_s) / chunks * 1e6)
    table = Table(("gateway", "chunks per second", "quartiles", "us of CPU per chunk", "goal"))
    for name, values in rates.items():
        low, middle, high = quartiles(values)
        goal = _times(values, rates.get("LiteLLM's proxy")) if name == "torvyn" else ""
        cost = f"{statistics.median(costs[name]):.1f}"
        if name == "torvyn":
            cost = f"{cost}, {verdict(statistics.median(costs[name]), CHUNK_US)}"
        table.rows.append((name, f"{middle:,.0f}", f"{low:,.0f} - {high:,.0f}", cost, goal))
    report.tables.append(table)
    report.data["chunks_a_second"], report.data["us_a_chunk"] = rates, costs


def _times(ours: list[float], theirs: list[float] | None) -> str:
    if theirs is None:
        return ""
    times = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return f"{times:.0f} x, >= {TIMES:g}: {'met' if times >= TIMES else 'NOT met'}"


def _first(
    report: Report, gateways: dict[str, ServerProcess], upstream: ServerProcess, rounds: int
) -> None:
    """Through Torvyn, and from the upstream itself."""
    added: dict[float, list[float]] = {0.5: [], 0.99: []}
    for number in range(rounds):
        say(f"first text: round {number + 1} of {rounds}")
        direct = first_texts(upstream.port, UPSTREAM, RATE, REQUESTS)
        through = first_texts(gateways["torvyn"].port, THROUGH, RATE, REQUESTS)
        for part, values in added.items():
            values.append((percentile(through, part) - percentile(direct, part)) * 1e3)
    table = Table(("added to the first text", "ms", "quartiles", "goal"), title="First text")
    for part, goal in ((0.5, P50_MS), (0.99, P99_MS)):
        low, middle, high = quartiles(added[part])
        row = (f"p{part * 100:g}", f"{middle:.2f}", f"{low:.2f} - {high:.2f}")
        table.rows.append((*row, verdict(middle, goal)))
    report.tables.append(table)
    report.data["added_first_text_ms"] = {f"p{part * 100:g}": v for part, v in added.items()}


if __name__ == "__main__":
    sys.exit(main())
