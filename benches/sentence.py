"""What does the sentence splitter cost per token, and which sentences does it find?

    python -m benches.sentence [--rounds R] [--json]

Splitters that scan their whole buffer again become slow on text without a boundary: long answers,
tables, code, lists of figures.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice

from benches import sentence_accuracy
from benches.harness import quartiles
from benches.peers import distribution_version, livekit_sentences, pipecat_sentences
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

WORKS = {
    "words": (" some", " more", " plain", " words"),
    "decimals": (" costs", " 3", ".", "14", "9", " and", " then", " v", " 2", ".", "5"),
}
"""No full stop at all, and only full stops that do not end a sentence."""
COUNT = 4_000
LENGTHS = (1_000, 10_000, 100_000)
METHOD = """\
Tokens of a text without a sentence boundary: `words` has no full stop, `decimals` only full stops
that do not end a sentence. Each entry receives one token at a time and must first return the whole
text as one sentence. The comparison uses {count:,} tokens in {rounds} interleaved rounds; the ratio
is the median of the rounds' ratios. Torvyn alone is measured with up to {longest:,} tokens. Times
are processor time."""
Split = Callable[[list[str]], list[str]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.sentence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(count=COUNT, rounds=options.rounds, longest=LENGTHS[-1])
    report = Report(
        "sentence", "What does the sentence splitter cost per token?", method.replace("\n", " ")
    )
    entries = _entries(report)
    for work in WORKS:
        times = _measure(entries, _tokens(work, COUNT), options.rounds)
        report.tables.append(_comparison(work, times))
        report.data[work] = times
    report.tables.append(_alone(report))
    report.tables.append(sentence_accuracy.table(report))
    publish(report, options.json)
    return 0


def torvyn(tokens: list[str]) -> list[str]:
    from torvyn.text import SentenceSplitter

    splitter = SentenceSplitter()
    sentences = []
    for token in tokens:
        sentences += splitter.put(token)
    rest = splitter.finish()
    return [*sentences, rest] if rest else sentences


def _entries(report: Report) -> dict[str, Split]:
    entries: dict[str, Split] = {"torvyn": torvyn}
    if _has(report, "pipecat", "pipecat-ai"):
        entries["pipecat"] = pipecat_sentences.split
    if _has(report, "livekit.agents", "livekit-agents"):
        entries["livekit basic"] = partial(livekit_sentences.split, "basic")
        entries["livekit blingfire"] = partial(livekit_sentences.split, "blingfire")
    return entries


def _has(report: Report, module: str, distribution: str) -> bool:
    try:
        is_installed = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        is_installed = False
    if is_installed:
        report.versions[distribution] = f"{distribution} {distribution_version(distribution)}"
    else:
        report.left_out[distribution] = "not installed"
    return is_installed


def _tokens(work: str, count: int) -> list[str]:
    return [*islice(cycle(WORKS[work]), count)]


def _measure(entries: dict[str, Split], tokens: list[str], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in entries}
    for name, split in entries.items():
        say(f"checking {name}")
        assert [text.strip() for text in split(tokens[:500])] == ["".join(tokens[:500]).strip()]
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, split in entries.items():
            start = time.process_time()
            split(tokens)
            times[name].append((time.process_time() - start) / len(tokens) * 1e6)
    return times


def _comparison(work: str, times: dict[str, list[float]]) -> Table:
    table = Table(
        ("entry", "us per token", "x torvyn", "target"), title=f"{work}, {COUNT:,} tokens"
    )
    for name, costs in times.items():
        ratio = quartiles([its / mine for its, mine in zip(costs, times["torvyn"], strict=True)])[1]
        goal = "" if name == "torvyn" else f">= 20: {'met' if ratio >= 20 else 'NOT met'}"
        table.rows.append([name, f"{quartiles(costs)[1]:.3f}", f"{ratio:,.0f}", goal])
    return table


def _alone(report: Report) -> Table:
    table = Table(
        ("torvyn, tokens without a boundary", *WORKS, "x the shortest"),
        title="Does the cost grow with the length?",
    )
    costs = {
        (work, length): quartiles(_measure({"torvyn": torvyn}, _tokens(work, length), 5)["torvyn"])[
            1
        ]
        for length in LENGTHS
        for work in WORKS
    }
    for length in LENGTHS:
        worst = max(costs[work, length] / costs[work, LENGTHS[0]] for work in WORKS)
        cells = [f"{costs[work, length]:.3f} us" for work in WORKS]
        table.rows.append([f"{length:,}", *cells, f"{worst:.2f} ({verdict(worst, 1.5)})"])
    report.data["alone_us"] = {f"{work} {length}": cost for (work, length), cost in costs.items()}
    return table


if __name__ == "__main__":
    sys.exit(main())
