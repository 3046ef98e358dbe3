"""How much does the durable store take and give per second, and what does it write to the disk?

    python -m benches.durable_store [--rounds R] [--folder F] [--json]

The store alone: rows are made once, and nothing decodes them. Every element is read back and
counted before a figure is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.store import DurableStore

ELEMENT_BYTES = 100
ROUND_BYTES = 48 << 20
LIMIT_BYTES = 128 << 20
PAGE_BYTES = 1 << 20
SHAPES = ((64 << 10, 1), (64 << 10, 16), (256 << 10, 4), (1 << 20, 1))
GOAL_PER_S, GOAL_WRITTEN = 500_000, 2.5
METHOD = """\
Elements of {element} bytes in rows, one transaction with `synchronous = FULL` per commit, until
{size} MiB are stored; then everything is read in pages of 1 MiB, each acknowledged in a commit.
"Written" is what the process gave to the disk (`/proc/self/io`) per byte of payload, while storing
and while draining. In the steady state every commit also acknowledges the rows of the one before.
Medians of {rounds} interleaved rounds."""


@dataclass
class Figures:
    stored_per_s: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)
    drained_per_s: list[float] = field(default_factory=list)
    drain_written: list[float] = field(default_factory=list)
    steady_per_s: list[float] = field(default_factory=list)
    steady_written: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.durable_store")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    figures = {shape: Figures() for shape in SHAPES}
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        for shape, found in figures.items():
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                measure(Path(folder) / "flow.db", *shape, found)
    size = ROUND_BYTES >> 20
    method = METHOD.format(element=ELEMENT_BYTES, size=size, rounds=options.rounds)
    report = Report("durable_store", "What does the durable store cost?", method.replace("\n", " "))
    report.tables.append(table(figures))
    report.data = {f"{size} x {rows}": vars(found) for (size, rows), found in figures.items()}
    publish(report, options.json)
    return 0


def measure(path: Path, row_bytes: int, rows: int, found: Figures) -> None:
    count = row_bytes // ELEMENT_BYTES
    body = os.urandom(count * ELEMENT_BYTES)
    commits = ROUND_BYTES // (row_bytes * rows)
    payload = commits * rows * len(body)
    with DurableStore.open(path, {"log": LogOptions(LIMIT_BYTES)}) as store:
        seconds, written = timed(lambda: fill(store, body, count, rows, commits))
        found.stored_per_s.append(commits * rows * count / seconds)
        found.written.append(written / payload)
        seconds, written = timed(lambda: drain(store))
        found.drained_per_s.append(commits * rows * count / seconds)
        found.drain_written.append(written / payload)
        seconds, written = timed(lambda: fill(store, body, count, rows, commits, is_steady=True))
        found.steady_per_s.append(commits * rows * count / seconds)
        found.steady_written.append(written / payload)


def fill(
    store: DurableStore, body: bytes, count: int, rows: int, commits: int, is_steady: bool = False
) -> None:
    now_ns = time.time_ns()
    for _ in range(commits):
        first = store.next_sequence("log")
        appends = [Append("log", first + i * count, count, body, now_ns) for i in range(rows)]
        store.commit(Transaction(appends, {"log": first - 1} if is_steady else {}))


def drain(store: DurableStore) -> None:
    read = 0
    while page := store.read("log", store.acknowledged("log"), PAGE_BYTES):
        read += sum(row.count for row in page)
        store.commit(Transaction(acknowledged={"log": page[-1].last}))
    assert read == store.next_sequence("log")


def timed(work: Callable[[], None]) -> tuple[float, int]:
    """Seconds, and bytes written to the disk."""
    before, start = written_bytes(), time.perf_counter()
    work()
    return time.perf_counter() - start, written_bytes() - before


def written_bytes() -> int:
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "write_bytes":
            return int(value)
    raise LookupError("write_bytes")


def table(figures: dict[tuple[int, int], Figures]) -> Table:
    columns = ["rows per commit", "stored/s", "written", "drained/s", "written", "steady/s"]
    result = Table([*columns, "written", f">= {GOAL_PER_S:,}/s, <= {GOAL_WRITTEN}"])
    for (row_bytes, rows), found in figures.items():
        medians = [statistics.median(values) for values in vars(found).values()]
        cells = [f"{v:,.0f}" if i % 2 == 0 else f"{v:.2f}" for i, v in enumerate(medians)]
        is_met = medians[0] >= GOAL_PER_S and max(medians[1], medians[5]) <= GOAL_WRITTEN
        name = f"{rows} x {row_bytes >> 10} KiB"
        result.rows.append([name, *cells, "met" if is_met else "NOT met"])
    return result


if __name__ == "__main__":
    raise SystemExit(main())
