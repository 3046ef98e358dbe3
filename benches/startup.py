"""How long does the command take to answer, and a flow in a program to start?

python -m benches.startup [--runs N] [--json]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benches.harness import quartiles
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

EXAMPLE = Path(__file__).parent.parent / "examples" / "token-streaming"
METHOD = """\
Wall time of a new process from start to end, with captured output, in {runs} interleaved runs after
a warm-up. `python -c pass` is the part that no command can avoid. A flow is built from two Python
components (source, processor), iterated to its end and dropped, {flows} times per run in one
process; the figure is CPU time of the process per flow, including the components' own work on 1 or
100 elements."""
FLOWS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.startup")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    torvyn = shutil.which("torvyn", path=str(Path(sys.executable).parent))
    if torvyn is None or not EXAMPLE.is_dir():
        print("nothing to run: no `torvyn` beside this Python, or no example", file=sys.stderr)
        return 2
    cases: dict[str, tuple[list[str], float | None]] = {
        "python -c pass": ([sys.executable, "-c", "pass"], None),
        "torvyn --help": ([torvyn, "--help"], 150.0),
        "torvyn run (examples/token-streaming)": ([torvyn, "run"], 400.0),
    }
    method = METHOD.format(runs=options.runs, flows=FLOWS)
    report = Report("startup", "How long do the command and a flow take to start?", method)
    report.method = report.method.replace("\n", " ")
    times = _measure({name: command for name, (command, _target) in cases.items()}, options.runs)
    table = Table(("command", "median, ms", "quartiles", "target"))
    for name, (_command, target) in cases.items():
        low, middle, high = quartiles(times[name])
        goal = "" if target is None else verdict(middle, target)
        table.rows.append([name, f"{middle:.1f}", f"{low:.1f}-{high:.1f}", goal])
    report.tables.append(table)
    report.data = dict(times)
    _flow_table(report, options.runs)
    publish(report, options.json)
    return 0


def _flow_table(report: Report, runs: int) -> None:
    table = Table(("flow of two Python components", "median, us", "quartiles", "target"))
    for elements, target in ((1, 150.0), (100, None)):
        say(f"flows of {elements} elements")
        times = [_flow_us(elements) for _ in range(runs)]
        low, middle, high = quartiles(times)
        goal = "" if target is None else verdict(middle, target)
        name = f"{elements} element{'s' * (elements > 1)}, from `Flow(...)` to its end"
        table.rows.append([name, f"{middle:.0f}", f"{low:.0f}-{high:.0f}", goal])
        report.data[f"flow of {elements}, us"] = times
    report.tables.append(table)


def _flow_us(elements: int) -> float:
    import torvyn
    from torvyn.testing import CountingSource

    class Same(torvyn.Processor):
        def process(self, element: torvyn.Element) -> str:
            return element.text

    def once() -> int:
        return sum(1 for _ in torvyn.Flow(CountingSource(elements), Same()))

    assert once() == elements
    start = time.process_time()
    for _ in range(FLOWS):
        once()
    return (time.process_time() - start) / FLOWS * 1e6


def _measure(commands: dict[str, list[str]], runs: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(-1, runs):
        say("warm-up" if number < 0 else f"run {number + 1} of {runs}")
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, cwd=EXAMPLE, check=True, capture_output=True)
            if number >= 0:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


if __name__ == "__main__":
    sys.exit(main())
