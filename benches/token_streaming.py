"""What does one token cost on its way through source, filter, aggregator and sink?

    python -m benches.token_streaming [--tokens N] [--rounds R] [--peers NAME ...] [--json]
    python -m benches.token_streaming --plot

Compares Torvyn with its peers: all do the same work in one process and one run. `--plot` measures
nothing and renders the plot of the stored results again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benches import harness, peers, plot, work
from benches.report import RESULTS, Report, Table

BASELINES = ("asyncio-queue", "generators")
PLOTTED: Final = {
    "torvyn-native": "Torvyn, native components",
    "torvyn-python": "Torvyn, Python components",
    "generators": "plain generators, no queues",
    "langchain-sync": "langchain-core, sync, no queues",
    "langchain-async": "langchain-core, async",
    "bytewax-64": "bytewax, batches of 64",
    "bytewax-item": "bytewax, item by item",
    "asyncio-queue": "asyncio.Queue(64) between tasks",
    "pipecat": "Pipecat",
}
METHOD = """\
{count:,} tokens (the example's twenty, repeated) through source, block-list filter, sentence
aggregator and sink. Each entry first runs once untimed: its sentences, its count of filtered tokens
and a digest of its text must equal those of a plain loop. Then {rounds} interleaved rounds follow.
The timed region includes building the flow. An entry that has used {budget:g} s stops after three
rounds. Time is wall time; `cpu` is the processor time of all threads. A ratio is the median of the
ratios of the rounds."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if options.plot:
        print(f"  written to {write_plot(options.out or RESULTS)}", file=sys.stderr)
        return 0
    found, missing = peers.entries(options.peers)
    if not found:
        print(f"cannot run: {missing or 'no entry has such a name'}", file=sys.stderr)
        return 2
    tokens = work.tokens(options.tokens)
    harness.prove(found, tokens, work.expected(tokens))
    timings = harness.interleave(found, tokens, options.rounds, options.budget)
    report = _report(timings, missing, options)
    page, _data = report.write(options.out) if options.out else report.write()
    print(report.json() if options.json else report.markdown(), end="")
    print(f"  written to {page} and {write_plot(page.parent)}", file=sys.stderr)
    return 0


def write_plot(folder: Path) -> Path:
    """Writes the plot of the results that are stored in a folder."""
    path = folder / "token_streaming.svg"
    path.write_text(render_plot(json.loads((folder / "token_streaming.json").read_text())))
    return path


def render_plot(results: dict[str, Any]) -> str:
    dots = [
        plot.Dot(label, results["data"][name]["us_per_token"]["median"], "torvyn" in name)
        for name, label in PLOTTED.items()
        if name in results["data"]
    ]
    title = "Cost of one token through four stages"
    return plot.render(title, "median, logarithmic scale, less is better", "us", dots)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.token_streaming")
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peers", nargs="+", help="entries, by name or prefix")
    parser.add_argument(
        "--budget", type=float, default=20.0, help="seconds that each entry may use"
    )
    parser.add_argument("--plot", action="store_true", help="plot the stored results")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument("--out", type=Path, help="the folder of the report")
    return parser.parse_args(arguments)


def _report(
    timings: Sequence[harness.Timing], missing: dict[str, str], options: argparse.Namespace
) -> Report:
    by_name = {timing.entry.name: timing for timing in timings}
    bases = [by_name[name] for name in BASELINES if name in by_name]
    columns = ["entry", "us per token", "quartiles", "cpu us", "tokens/s", "rounds"]
    method = METHOD.format(count=options.tokens, rounds=options.rounds, budget=options.budget)
    data = {timing.entry.name: _figures(timing, bases, options.tokens) for timing in timings}
    return Report(
        name="token_streaming",
        question="What does one token cost?",
        method=method.replace("\n", " "),
        tables=[
            Table(
                [*columns, *(f"x {base.entry.name}" for base in bases)],
                [_row(name, figures) for name, figures in data.items()],
            )
        ],
        left_out=missing,
        versions={timing.entry.name: timing.entry.version for timing in timings},
        data=data,
    )


def _figures(timing: harness.Timing, bases: Sequence[harness.Timing], count: int) -> dict[str, Any]:
    low, middle, high = (wall / count * 1e6 for wall in harness.quartiles(timing.walls))
    return {
        "us_per_token": {"median": middle, "lower_quartile": low, "upper_quartile": high},
        "cpu_us_per_token": harness.quartiles(timing.cpus)[1] / count * 1e6,
        "ratios": {base.entry.name: harness.ratio(timing, base) for base in bases},
        "wall_s": timing.wall_s,
    }


def _row(name: str, figures: dict[str, Any]) -> list[str]:
    cost = figures["us_per_token"]
    rounds = sum(wall is not None for wall in figures["wall_s"])
    return [
        name,
        f"{cost['median']:.3f}",
        f"{cost['lower_quartile']:.3f}-{cost['upper_quartile']:.3f}",
        f"{figures['cpu_us_per_token']:.3f}",
        f"{1e6 / cost['median']:,.0f}",
        str(rounds),
        *(f"{value:.2f}" for value in figures["ratios"].values()),
    ]


if __name__ == "__main__":
    sys.exit(main())
