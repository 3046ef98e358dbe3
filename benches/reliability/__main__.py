"""What holds when something goes wrong?

    python -m benches.reliability [--rounds R] [--only NAME...] [--json]

Writes `results/reliability.json`, one record a line, and the page of it.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterator, Sequence

from benches.question import cannot_run, publish, say
from benches.reliability import QUESTIONS
from benches.reliability.line import Line
from benches.report import Report, Table

METHOD = """\
Each line is a fault, made on purpose in {rounds} rounds; the figure is the worst of them unless
it is a ratio or a mean, where it is the median. Ratios are taken within a round, quiet and stormy
by turns."""


def lines(only: Sequence[str]) -> Iterator[Line]:
    for question in QUESTIONS:
        for line in importlib.import_module(f"benches.reliability.{question}").LINES:
            if not only or any(line.name.startswith(name) for name in only):
                yield line


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.reliability")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of lines, or how they begin")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    logging.getLogger("torvyn").setLevel(logging.CRITICAL)
    method = METHOD.format(rounds=options.rounds).replace("\n", " ")
    report = Report("reliability", "What holds when something goes wrong?", method)
    table = Table(("fault", "how", "must hold", "measured", "met", "remark"))
    found = []
    for line in lines(options.only):
        say(line.name)
        facts = line.run(options.rounds)
        found.append(facts)
        if facts["is_met"] is None:
            report.left_out[line.name] = facts["left_out"]
            continue
        met = "yes" if facts["is_met"] else "NO"
        row = (line.fault, line.how, line.gate, f"{facts['measured']:.3g}", met, facts["detail"])
        table.rows.append(row)
    report.tables.append(table)
    report.data = {"lines": found}
    publish(report, options.json)
    return 0 if all(facts["is_met"] is not False for facts in found) else 1


if __name__ == "__main__":
    sys.exit(main())
