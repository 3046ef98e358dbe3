"""What do C and Python guests cost per element, instance, start and thousand flows?

    python -m benches.sandbox_guests [--rounds R] [--flows N] [--no-python] [--json]

The guests of `examples/token-streaming-c` and two small ones. Building and compiling is not timed.
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
C guests are compiled by zig with the shipped glue code. The filter reads its payload of 11 bytes
and searches it for a word; its cost is the difference between flows with and without it. The time
includes the start of a flow, but not the instantiation of its guests. There are {rounds}
interleaved rounds of {elements:,} elements after a warm-up. A start is the wall time of a new
`torvyn run` process with cached code. Memory is the growth of the resident set after {flows:,}
flows of four guests have each processed one element and wait."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.sandbox_guests")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--flows", type=int, default=1_000)
    parser.add_argument("--no-python", action="store_true", help="Leave out Python guests.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    if importlib.util.find_spec("ziglang") is None:
        print("nothing to run: C guests need `pip install 'torvyn[c]'`", file=sys.stderr)
        return 2
    elements = guest_projects.ELEMENTS
    method = METHOD.format(rounds=options.rounds, elements=elements, flows=options.flows)
    report = Report(
        "sandbox_guests", "What do guests in C and Python cost?", method.replace("\n", " ")
    )
    with tempfile.TemporaryDirectory() as folder:
        projects = guest_projects.make(Path(folder))
        _elements(report, projects, options.rounds)
        _python_elements(report, projects, options.rounds, with_python=not options.no_python)
        _instances(report, projects, options.rounds, with_python=not options.no_python)
        _starts(report, projects, options.rounds, with_python=not options.no_python)
        _memory(report, projects, options.flows)
    publish(report, options.json)
    return 0


def _elements(report: Report, projects: Path, rounds: int) -> None:
    """Measures the flows in interleaved rounds."""
    costs: dict[str, list[float]] = {name: [] for name in ("three", "filtered", "tokens", "silent")}
    copies: dict[str, float] = {}
    for number in range(-1, rounds):
        say("warm-up" if number < 0 else f"elements: round {number + 1} of {rounds}")
        for name, samples in costs.items():
            with _level("off" if name == "silent" else "production"):
                project = projects / ("three" if name == "silent" else name)
                cost, copies[name] = guest_projects.run(project)
            if number >= 0:
                samples.append(cost)
    added = [b - a for a, b in zip(costs["three"], costs["filtered"], strict=True)]
    observing = [b - a for a, b in zip(costs["silent"], costs["three"], strict=True)]
    rows = {
        "a filter that reads": (added, 1.0, copies["filtered"] - copies["three"]),
        "source -> processor -> sink": (costs["three"], 1.2, copies["three"]),
        "token-streaming, four guests": (costs["tokens"], 3.0, copies["tokens"]),
        "the cost of level `production` over `off`": (observing, 0.5, 0.0),
    }
    table = Table(("in C", "us per element", "quartiles", "target", "copies"), title="An element")
    for name, (samples, target, copied) in rows.items():
        low, middle, high = quartiles(samples)
        cells = [name, f"{middle:.3f}", f"{low:.3f}-{high:.3f}", verdict(middle, target)]
        table.rows.append([*cells, f"{copied:g}"])
    report.tables.append(table)
    report.data |= {"element_us": costs, "copies": copies}


def _python_elements(report: Report, projects: Path, rounds: int, with_python: bool) -> None:
    """A processor in Python between a source and a sink in C, whose cost is subtracted."""
    if _no_python(with_python):
        return
    columns = ("a processor in Python", "us per element", "quartiles", "target")
    table = Table(columns, title="An element in Python")
    names = {"python": "`process`", "python-batch": "`process_batch`"}
    costs: dict[str, list[float]] = {name: [] for name in ("two", *names)}
    for name in costs:
        guest_projects.make_python(projects, name)
    for number in range(-1, rounds):
        say("warm-up" if number < 0 else f"Python elements: round {number + 1} of {rounds}")
        for name, samples in costs.items():
            cost, _ = guest_projects.run(projects / name, guest_projects.PYTHON_ELEMENTS)
            if number >= 0:
                samples.append(cost)
    for name, shown in names.items():
        added = [b - a for a, b in zip(costs["two"], costs[name], strict=True)]
        low, middle, high = quartiles(added)
        cells = [shown, f"{middle:.3f}", f"{low:.3f}-{high:.3f}", verdict(middle, 10.0)]
        table.rows.append(cells)
    report.tables.append(table)
    report.data["python_element_us"] = costs


@contextmanager
def _level(level: str) -> Iterator[None]:
    """Sets the level of observability, as a user would for one run."""
    os.environ["TORVYN_OBSERVABILITY__LEVEL"] = level
    try:
        yield
    finally:
        del os.environ["TORVYN_OBSERVABILITY__LEVEL"]


def _instances(report: Report, projects: Path, rounds: int, with_python: bool) -> None:
    table = Table(("instantiate and `init`", "ms", "quartiles", "target"), title="An instance")
    for language, target_ms in (("c", 0.2), ("python", 5.0)):
        if language == "python" and (reason := _no_python(with_python)):
            report.left_out["Python guests"] = reason
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
        return "left out by an option"
    missing = importlib.util.find_spec("componentize_py") is None
    return "componentize-py is not installed" if missing else ""


def _starts(report: Report, projects: Path, rounds: int, with_python: bool) -> None:
    torvyn = shutil.which("torvyn", path=str(Path(sys.executable).parent))
    if torvyn is None:
        report.left_out["starts"] = "`torvyn` is not installed for this Python"
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
    flows = guest_projects.start_idle(projects / "tokens", count)
    grown_mb = (resident_bytes() - before) / 1e6
    guest_projects.cancel(flows)
    table = Table(("flows of four C guests", "MB", "target"), title="Memory")
    table.rows.append([f"{count:,}", f"{grown_mb:.0f}", verdict(grown_mb, 512.0 * count / 1000)])
    report.tables.append(table)
    report.data["flows_mb"] = grown_mb


if __name__ == "__main__":
    sys.exit(main())
