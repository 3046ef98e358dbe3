"""Is a flow in memory as fast as it was in another checkout?

    python -m benches.baseline CHECKOUT [--rounds R] [--tokens N] [--json]

The other checkout needs its native module. Both run the token-streaming flow by turns, each in a
process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benches.question import cannot_run, publish, say
from benches.report import Report, Table

HERE = Path(__file__).parents[1]
LIMIT = 1.02
ENTRIES = ("torvyn_python", "torvyn_native")
METHOD = """\
{tokens:,} tokens through source, block-list filter, sentence aggregator and sink, as in
token_streaming. Each of {rounds} rounds starts one process per checkout, in alternating order; a
process runs the flow {repeats} times and reports its fastest CPU time, so that other work on the
machine counts little. The ratio is the median of the rounds' ratios."""
REPEATS = 7
PROGRAM = """
import importlib, json, sys, time
from benches import work
tokens = work.tokens(int(sys.argv[1]))
right = work.expected(tokens)
fastest = {}
for name in sys.argv[3:]:
    run = importlib.import_module("benches.peers." + name).run
    assert run(tokens).filtered == right.filtered
    times = []
    for _ in range(int(sys.argv[2])):
        began_s = time.process_time()
        run(tokens)
        times.append(time.process_time() - began_s)
    fastest[name] = min(times) / len(tokens) * 1e9
print(json.dumps(fastest))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.baseline")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    before = options.checkout.resolve()
    if not list((before / "python" / "torvyn").glob("_native*")):
        print(f"{options.checkout} has no native module: build it there", file=sys.stderr)
        return 2
    method = METHOD.format(**vars(options), repeats=REPEATS).replace("\n", " ")
    report = Report("baseline", "Is a flow in memory as fast as before?", method)
    report.versions = {"before": _revision(before), "now": _revision(HERE)}
    _compare(report, before, options)
    publish(report, options.json)
    return 0


def _compare(report: Report, before: Path, options: argparse.Namespace) -> None:
    figures: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        trees = [("before", before), ("now", HERE)]
        for name, tree in trees if number % 2 else reversed(trees):
            figures[name].append(_measure(tree, options.tokens))
    table = Table(("flow", "ns per token before", "now", "ratio", "goal"))
    for entry in ENTRIES:
        old = [one[entry] for one in figures["before"]]
        new = [one[entry] for one in figures["now"]]
        ratio = statistics.median(b / a for a, b in zip(old, new, strict=True))
        goal = f"<= {LIMIT:g}: {'met' if ratio <= LIMIT else 'NOT met'}"
        medians = (f"{statistics.median(old):.1f}", f"{statistics.median(new):.1f}")
        table.rows.append((entry.replace("_", "-"), *medians, f"{ratio:.3f}", goal))
    report.tables.append(table)
    report.data["ns_per_token"] = figures


def _measure(tree: Path, tokens: int) -> dict[str, float]:
    command = [sys.executable, "-c", PROGRAM, str(tokens), str(REPEATS), *ENTRIES]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'python'}:{tree}"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _revision(tree: Path) -> str:
    command = ["git", "-C", str(tree), "describe", "--always", "--tags", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"torvyn at {done.stdout.strip()}"


if __name__ == "__main__":
    sys.exit(main())
