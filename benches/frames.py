"""What does a frame cost on its way out, and a chunk on its way in?

    python -m benches.frames [--rounds R] [--json]

The common frame: one token of text as a chunk of OpenAI's chat dialect on an event stream. Every
entry must first give the same answer as all others.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benches import wire
from benches.harness import quartiles
from benches.peers import distribution_version
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

WORDS = (" world", "Hello", ",", " the", ' "quoted"', "\n", " naïve", " 東京", " \U0001f600", ".")
TOKENS = list(WORDS) * 1000
METHOD = """\
{count:,} tokens per round, each as a chat chunk of about 190 bytes on an event stream. Figures are
medians of {rounds} interleaved rounds, with one call from Python per token unless a row says
otherwise. The output of every entry is checked against the tokens before it is timed. Peers write
only the `data:` of an event; Torvyn also numbers it and writes `id:`."""
ENCODE_GOAL_US = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.frames")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(count=len(TOKENS), rounds=options.rounds).replace("\n", " ")
    report = Report("frames", "What does a frame cost?", method)
    writers, readers = wire.writers(report.left_out), wire.readers(report.left_out)
    check(writers, readers)
    stream = wire.stream(TOKENS)
    written = measure(writers, TOKENS, options.rounds)
    read = measure(readers, stream, options.rounds)
    report.tables += [
        table("Writing a frame", written, "torvyn `Encoder.text`", ENCODE_GOAL_US),
        table("Reading a chunk", read, "torvyn `ChunkDecoder`", None),
    ]
    report.data = {"encode_us": written, "decode_us": read}
    for name in ("orjson", "pydantic", "openai"):
        if name not in report.left_out:
            report.versions[name] = f"{name} {distribution_version(name)}"
    publish(report, options.json)
    return 0


def check(writers: dict[str, wire.MakeWriter], readers: dict[str, wire.MakeReader]) -> None:
    """Every writer's bytes say the tokens, whoever reads them."""
    for name, make in writers.items():
        assert wire.plain_read(make()(TOKENS)) == TOKENS, name
    for name, make_reader in readers.items():
        assert "".join(make_reader()([wire.FIRST, *wire.stream(TOKENS)])) == "".join(TOKENS), name


def measure(
    entries: Mapping[str, Callable[[], Callable[[Any], object]]], work: list[Any], rounds: int
) -> dict[str, list[float]]:
    """Microseconds a token, by entry and round."""
    spent: dict[str, list[float]] = {name: [] for name in entries}
    for number in range(-1, rounds):
        say("warm-up" if number < 0 else f"round {number + 1} of {rounds}")
        for name, make in entries.items():
            run = make()
            gc.collect()
            start = time.perf_counter()
            run(work)
            cost = (time.perf_counter() - start) / len(TOKENS) * 1e6
            if number >= 0:
                spent[name].append(cost)
    return spent


def table(title: str, spent: dict[str, list[float]], own: str, goal: float | None) -> Table:
    columns = ["entry", "us", "quartiles", "x torvyn"] + (["target"] if goal else [])
    made = Table(columns, title=title)
    for name, costs in spent.items():
        low, middle, high = quartiles(costs)
        ratio = statistics.median(a / b for a, b in zip(costs, spent[own], strict=True))
        row = [name, f"{middle:.2f}", f"{low:.2f}-{high:.2f}", f"{ratio:.1f}"]
        if goal:
            row.append(verdict(middle, goal) if name == own else "")
        made.rows.append(row)
    return made


if __name__ == "__main__":
    sys.exit(main())
