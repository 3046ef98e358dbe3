"""Which guarantees hold when something goes wrong?

    python -m benches.reliability [--rounds R] [--only NAME...] [--json]

Writes `results/reliability.json` and its page.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterator, Sequence

from benches.question import cannot_run, publish, say
from benches.reliability.case import Case
from benches.reliability.cases import QUESTIONS
from benches.report import Report, Table

METHOD = """\
Each row injects a fault in {rounds} rounds. The figure is the worst round; for a ratio or a mean,
the median. Ratios compare measurements of one round, with and without the fault by turns."""


def cases(only: Sequence[str]) -> Iterator[Case]:
    for question in QUESTIONS:
        for case in importlib.import_module(f"benches.reliability.cases.{question}").CASES:
            if not only or any(case.name.startswith(name) for name in only):
                yield case


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.reliability")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of cases, or prefixes of them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    logging.getLogger("torvyn").setLevel(logging.CRITICAL)
    method = METHOD.format(rounds=options.rounds).replace("\n", " ")
    report = Report("reliability", "Which guarantees hold when something goes wrong?", method)
    table = Table(("fault", "how", "limit", "measured", "met", "remark"))
    results = []
    for case in cases(options.only):
        say(case.name)
        result = case.run(options.rounds)
        results.append(result)
        if result["is_met"] is None:
            report.left_out[case.name] = result["left_out"]
            continue
        met = "yes" if result["is_met"] else "NO"
        value = f"{result['measured']:.3g}"
        row = (case.fault, case.how, case.limit_text, value, met, result["detail"])
        table.rows.append(row)
    report.tables.append(table)
    report.data = {"cases": results}
    publish(report, options.json)
    return 0 if all(result["is_met"] is not False for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
