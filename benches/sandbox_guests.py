"""What do guests in C and in Python cost: an element, an instance, a start, a thousand flows?

    python -m benches.sandbox_guests [--rounds R] [--flows N] [--no-python] [--json]

The guests of `examples/token-streaming-c` and two small ones, built and compiled outside the clock.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benches import guest_projects
from benches.harness import quartiles
from benches.machine import resident_bytes
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

METHOD = """\
Guests in C are compiled by zig with the shipped glue. The filter reads its payload of 11 bytes and
looks for a word in it; its cost is that of a flow with it less that of the flow without. Flows are
instantiated outside the clock and started inside it; {rounds} interleaved rounds of {elements:,}
elements after one that warms up. A start is the wall time of a new `torvyn run` process with
compiled code in the cache. Memory is the growth of the resident set from before the first of
{flows:,} flows of four guests to when all have run one element and wait."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.sandbox_guests")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--flows", type=int, default=1_000)
    parser.add_argument("--no-python", action="store_true", help="Leave guests in Python out.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    if importlib.util.find_spec("ziglang") is None:
        print("nothing to run: guests in C need `pip install 'torvyn[c]'`", file=sys.stderr)
        return 2
    elements = guest_projects.ELEMENTS
    method = METHOD.format(rounds=options.rounds, elements=elements, flows=options.flows)
    report = Report(
        "sandbox_guests", "What do guests in C and Python cost?", method.replace("\n", " ")
    )
    with tempfile.TemporaryDirectory() as folder:
        projects = guest_projects.make(Path(folder))
        _elements(report, projects, options.rounds)
        _instances(report, projects, options.rounds, with_python=not options.no_python)
        _starts(report, projects, options.rounds, with_python=not options.no_python)
        _memory(report, projects, options.flows)
    publish(report, options.json)
    return 0


def _elements(report: Report, projects: Path, rounds: int) -> None:
    """The three flows side by side."""
    costs: dict[str, list[float]] = {name: [] for name in ("three", "filtered", "tokens", "silent")}
    copies: dict[str, float] = {}
    for number in range(-1, rounds):
        say("warm-up" if number < 0 else f"elements: round {number + 1} of {rounds}")
        for name, found in costs.items():
            with _level("off" if name == "silent" else "production"):
                project = projects / ("three" if name == "silent" else name)
                cost, copies[name] = guest_projects.run(project)
            if number >= 0:
                found.append(cost)
    added = [b - a for a, b in zip(costs["three"], costs["filtered"], strict=True)]
    observing = [b - a for a, b in zip(costs["silent"], costs["three"], strict=True)]
    rows = {
        "a filter that reads": (added, 1.0, copies["filtered"] - copies["three"]),
        "source -> processor -> sink": (costs["three"], 4.0, copies["three"]),
        "token-streaming, four guests": (costs["tokens"], 3.0, copies["tokens"]),
        "what level `production` adds to `off`": (observing, 0.5, 0.0),
    }
    table = Table(("in C", "us an element", "quartiles", "target", "copies"), title="An element")
    for name, (found, target, copied) in rows.items():
        low, middle, high = quartiles(found)
        cells = [name, f"{middle:.3f}", f"{low:.3f}-{high:.3f}", verdict(middle, target)]
        table.rows.append([*cells, f"{copied:g}"])
    report.tables.append(table)
    report.data |= {"element_us": costs, "copies": copies}


@contextmanager
def _level(level: str) -> Iterator[None]:
    """How much is observed, said as a user would say it for one run."""
    os.environ["TORVYN_OBSERVABILITY__LEVEL"] = level
    try:
        yield
    finally:
        del os.environ["TORVYN_OBSERVABILITY__LEVEL"]


def _instances(report: Report, projects: Path, rounds: int, with_python: bool) -> None:
    table = Table(("instantiate and `init`", "ms", "quartiles", "target"), title="An instance")
    for language, target_ms in (("c", 0.2), ("python", 5.0)):
        if language == "python" and (why := _no_python(with_python)):
            report.left_out["guests in Python"] = why
            continue
        say(f"an instance in {language}")
        times = guest_projects.instantiate(projects, language, 20 * rounds)
        low, middle, high = quartiles(times)
        cells = [language, f"{middle:.3f}", f"{low:.3f}-{high:.3f}", verdict(middle, target_ms)]
        table.rows.append(cells)
        report.data[f"instantiate_{language}_ms"] = times
    report.tables.append(table)


def _no_python(with_python: bool) -> str:
    if not with_python:
        return "not asked for"
    missing = importlib.util.find_spec("componentize_py") is None
    return "componentize-py is not installed" if missing else ""


def _starts(report: Report, projects: Path, rounds: int, with_python: bool) -> None:
    torvyn = shutil.which("torvyn", path=str(Path(sys.executable).parent))
    if torvyn is None:
        report.left_out["starts"] = "no `torvyn` beside this Python"
        return
    table = Table(("torvyn run", "ms", "quartiles", "target"), title="A start, code cached")
    for name in ("example-c", *(() if _no_python(with_python) else ("example-python",))):
        guest_projects.build(projects / name)
        say(f"starts: {name}")
        times = []
        for number in range(-1, rounds):
            start = time.perf_counter()
            subprocess.run([torvyn, "run"], cwd=projects / name, check=True, capture_output=True)
            times += [(time.perf_counter() - start) * 1e3] if number >= 0 else []
        low, middle, high = quartiles(times)
        goal = verdict(middle, 500.0)
        table.rows.append([name, f"{middle:.0f}", f"{low:.0f}-{high:.0f}", goal])
        report.data[f"start_{name}_ms"] = times
    report.tables.append(table)


def _memory(report: Report, projects: Path, count: int) -> None:
    say(f"{count} flows of four guests")
    before = resident_bytes()
    flows = guest_projects.hold(projects / "tokens", count)
    grown_mb = (resident_bytes() - before) / 1e6
    guest_projects.let_go(flows)
    table = Table(("flows of four guests in C", "MB", "target"), title="Memory")
    table.rows.append([f"{count:,}", f"{grown_mb:.0f}", verdict(grown_mb, 512.0 * count / 1000)])
    report.tables.append(table)
    report.data["flows_mb"] = grown_mb


if __name__ == "__main__":
    sys.exit(main())
