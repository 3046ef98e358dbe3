"""What does a filter add to a token, and how long after its last token is a sentence delivered?

    python -m benches.latency [--tokens N] [--rounds R] [--paced N] [--json]

The filter's cost is the difference, round by round, between a flow with it and one without it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benches import work
from benches.harness import percentile, quartiles
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

GAP_S = 0.001
"""Between tokens of the paced flow: far longer than the flow needs for one."""
FILTER_TARGETS_US = {"native": 1.0, "python": 2.0}
EMISSION_TARGET_US = 20.0
METHOD = """\
Filter: {count:,} tokens, none of which is blocked, so both flows do the same work after the
filter. The figure is the median difference of {rounds} interleaved rounds. Emission: from the
moment at which the source returns the token that ends a sentence to the moment at which a Python
sink receives the sentence. Saturated: the source always has a token, so a sentence may wait for the
rest of its batch. Paced: {gap:g} ms between tokens, as from a model; the source sleeps in between,
so the figure includes the time that the machine needs to wake up. Paced, awake: the source spins
instead of sleeping, which leaves only the flow's own share."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.latency")
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--paced", type=int, default=4_000, help="tokens of the paced flow")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(count=options.tokens, rounds=options.rounds, gap=GAP_S * 1e3)
    report = Report("latency", "What does a filter add?", method.replace("\n", " "))
    _filter_overhead(report, options.tokens, options.rounds)
    _emission(report, options.tokens, options.paced)
    publish(report, options.json)
    return 0


def _filter_overhead(report: Report, count: int, rounds: int) -> None:
    tokens = [token.replace(work.BLOCKED, "allowed_word") for token in work.tokens(count)]
    columns = ("components", "without, us", "with, us", "filter, us", "quartiles", "target")
    table = Table(columns, title="Filter overhead per token")
    for kind, build in (("python", _python_flow), ("native", _native_flow)):
        build(tokens, True).run()
        build(tokens, False).run()
        without, with_filter = [], []
        for number in range(rounds):
            say(f"filter, {kind}, round {number + 1} of {rounds}")
            without.append(_time_us(build, tokens, False))
            with_filter.append(_time_us(build, tokens, True))
        added = [b - a for a, b in zip(without, with_filter, strict=True)]
        low, middle, high = quartiles(added)
        costs = (statistics.median(without), statistics.median(with_filter), middle)
        row = [kind, *(f"{cost:.3f}" for cost in costs), f"{low:.3f}-{high:.3f}"]
        table.rows.append([*row, verdict(middle, FILTER_TARGETS_US[kind])])
        report.data[f"filter_{kind}"] = {"without_us": without, "with_us": with_filter}
    report.tables.append(table)


def _time_us(build: Callable[[list[str], bool], Any], tokens: list[str], filtered: bool) -> float:
    flow = build(tokens, filtered)
    start = time.perf_counter()
    flow.run()
    return (time.perf_counter() - start) / len(tokens) * 1e6


def _python_flow(tokens: list[str], filtered: bool) -> Any:
    import torvyn
    from benches.torvyn_components import ContentFilter, SentenceAggregator, TextSink, TokenSource

    guard = [ContentFilter(work.BLOCKED)] if filtered else []
    return torvyn.Flow(TokenSource(tokens), *guard, SentenceAggregator(), TextSink())


def _native_flow(tokens: list[str], filtered: bool) -> Any:
    import torvyn
    from torvyn.components import Blocklist, Null, Scripted, Sentence

    seed = tokens[: len(work.SEED_TOKENS)]
    script = {"tokens": seed, "repeat": len(tokens) // len(seed)}
    guard = [Blocklist(work.BLOCKED)] if filtered else []
    return torvyn.Flow(Scripted(script), *guard, Sentence({"mode": "simple"}), Null())


def _emission(report: Report, saturated: int, paced: int) -> None:
    columns = ("flow", "sentences", "p50, us", "p99, us", "worst, us", "target, p99")
    table = Table(columns, title="From the token that ends a sentence to its delivery")
    paces = (
        ("paced", paced, GAP_S),
        ("paced, awake", paced, -GAP_S),
        ("saturated", saturated, 0.0),
    )
    for pace, count, gap_s in paces:
        for kind in ("python", "native"):
            say(f"emission, {kind}, {pace}")
            waits = [wait / 1e3 for wait in _waits_ns(kind, work.tokens(count), gap_s)]
            p50, p99 = percentile(waits, 0.50), percentile(waits, 0.99)
            name = f"{kind} filter and aggregator, {pace}"
            row = [name, str(len(waits)), f"{p50:.1f}", f"{p99:.1f}", f"{max(waits):.1f}"]
            table.rows.append([*row, verdict(p99, EMISSION_TARGET_US)])
            report.data[f"emission_{kind}_{pace.replace(', ', '_')}"] = {
                "p50_us": p50,
                "p99_us": p99,
            }
    report.tables.append(table)


def _waits_ns(kind: str, tokens: list[str], gap_s: float) -> list[int]:
    import torvyn
    from benches.timed_components import StampingSink, StampingSource
    from benches.torvyn_components import ContentFilter, SentenceAggregator
    from torvyn.components import Blocklist, Sentence

    stamps: list[int] = []
    sink = StampingSink()
    middle: list[Any] = [ContentFilter(work.BLOCKED), SentenceAggregator()]
    if kind == "native":
        middle = [Blocklist(work.BLOCKED), Sentence({"mode": "simple"})]
    torvyn.Flow(StampingSource(tokens, stamps, gap_s), *middle, sink).run()
    if len(stamps) != len(sink.stamps):
        raise AssertionError(f"{len(stamps)} sentences sent, {len(sink.stamps)} delivered")
    return [got - sent for sent, got in zip(stamps, sink.stamps, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
