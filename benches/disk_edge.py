"""How many elements per second pass an edge on the disk?

    python -m benches.disk_edge [--rounds R] [--count N] [--json]

The carrier alone: a source, an edge with `carrier = "disk"`, a sink, in one process. Every commit
waits for the disk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence

import torvyn
from benches.harness import quartiles
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

GOAL = 500_000
SIZES = (100, 1000)
METHOD = """\
{count:,} elements from a source in Python over a disk edge (WAL, synchronous FULL) to a sink that
counts them natively; the source is acknowledged when its elements are durable. Beside it the same
flow with its edge in memory. The time is that of the whole run: it ends when the sink has taken
everything and the log is empty. Bytes written are those that the process sent to the disk. Medians
and quartiles of {rounds} interleaved rounds."""


class Repeater(torvyn.Source):
    """Produces one payload many times, and counts what is acknowledged."""

    def __init__(self, payload: bytes, count: int) -> None:
        super().__init__()
        self._payload = payload
        self._left = count
        self.acknowledged = 0

    def pull(self) -> bytes | None:
        if not self._left:
            return None
        self._left -= 1
        return self._payload

    def acknowledge(self, count: int) -> None:
        self.acknowledged += count


def measure(size: int, count: int, carrier: str) -> tuple[float, float]:
    """Elements per second, and bytes written per byte of payload."""
    source = Repeater(b"x" * size, count)
    flow = torvyn.Flow(name="bench")
    flow.add("in", source)
    flow.add("out", "null")
    if carrier == "disk":
        flow.connect("in", "out", carrier="disk", queue_depth=4096, max_bytes=2**30)
    else:
        flow.connect("in", "out", queue_depth=4096)
    written, began_s = _written_bytes(), time.perf_counter()
    flow.run()
    took_s = time.perf_counter() - began_s
    taken = flow.statistics.edges[0].taken
    if (source.acknowledged, taken) != (count, count):
        raise AssertionError(f"{count} sent, {source.acknowledged} acknowledged, {taken} taken")
    return count / took_s, (_written_bytes() - written) / (count * size)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.disk_edge")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(**vars(options)).replace("\n", " ")
    report = Report("disk_edge", "How many elements per second pass an edge on the disk?", method)
    with tempfile.TemporaryDirectory(prefix="torvyn-disk-edge-") as folder:
        here = os.getcwd()
        os.chdir(folder)
        try:
            _compare(report, options)
        finally:
            os.chdir(here)
    publish(report, options.json)
    return 0


def _compare(report: Report, options: argparse.Namespace) -> None:
    kinds = [(size, carrier) for size in SIZES for carrier in ("disk", "memory")]
    results: dict[tuple[int, str], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        for kind in kinds:
            results[kind].append(measure(kind[0], options.count, kind[1]))
    table = Table(("edge", "bytes", "elements/s", "quartiles", "written per byte", "goal"))
    for (size, carrier), rounds in results.items():
        low, middle, high = quartiles([rate for rate, _ in rounds])
        written = quartiles([ratio for _, ratio in rounds])[1]
        is_goal = (size, carrier) == (SIZES[0], "disk")
        goal = f">= {GOAL:,}: {'met' if middle >= GOAL else 'NOT met'}" if is_goal else ""
        row = (carrier, str(size), f"{middle:,.0f}", f"{low:,.0f} - {high:,.0f}")
        table.rows.append((*row, f"{written:.2f}", goal))
    report.tables.append(table)
    report.data["rounds"] = {f"{carrier} {size}": v for (size, carrier), v in results.items()}


def _written_bytes() -> int:
    with open("/proc/self/io") as file:
        line = next(line for line in file if line.startswith("write_bytes"))
    return int(line.split()[1])


if __name__ == "__main__":
    sys.exit(main())
