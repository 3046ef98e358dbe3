"""Which guarantees hold when something goes wrong?

    python -m benches.reliability [--rounds R] [--only NAME...] [--json]

Writes `results/reliability.json` and its page. With `--only`, the other cases keep the figures that
are there, so that a long run can be made in parts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benches.question import cannot_run, publish, say
from benches.reliability.case import Case
from benches.reliability.cases import QUESTIONS
from benches.report import RESULTS, Report, Table

METHOD = (
    "Each row injects a fault in some rounds. The figure is the worst round; for a ratio or a "
    "mean, the median. Ratios compare measurements of one round, with and without the fault by "
    "turns. The page is measured in parts; `reliability.json` has the time of each case."
)
COLUMNS = ("fault", "how", "limit", "measured", "met", "rounds", "remark")


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
    results = _earlier() if options.only else {}
    for case in cases(options.only):
        say(case.name)
        results[case.name] = case.run(options.rounds)
    measured = [results[case.name] for case in cases(()) if case.name in results]
    publish(_report(measured), options.json)
    return 0 if all(result["is_met"] is not False for result in measured) else 1


def _earlier() -> dict[str, Any]:
    """The results of the last run, by case."""
    file = RESULTS / "reliability.json"
    known = json.loads(file.read_text())["data"]["cases"] if file.exists() else []
    return {result["name"]: result for result in known}


def _report(results: Sequence[dict[str, Any]]) -> Report:
    report = Report("reliability", "Which guarantees hold when something goes wrong?", METHOD)
    table = Table(COLUMNS)
    for result in results:
        if result["is_met"] is None:
            report.left_out[result["name"]] = result["left_out"]
            continue
        met = "yes" if result["is_met"] else "NO"
        figures = (f"{result['measured']:.3g}", met, str(result["rounds"]))
        row = (result["fault"], result["how"], result["gate"], *figures, result["detail"])
        table.rows.append(row)
    report.tables.append(table)
    report.data = {"cases": list(results)}
    return report


if __name__ == "__main__":
    sys.exit(main())
