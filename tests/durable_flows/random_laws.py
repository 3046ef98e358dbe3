"""The laws of durable flows, judged by what the sinks and the store have in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from random_graph import RandomFlow

from torvyn._durable.backend import LogOptions
from torvyn._durable.disk.store import DurableStore


def broken_laws(made: RandomFlow, folder: Path, *, is_gentle: bool) -> list[str]:
    """`is_gentle`: every run was drained or ran to its end, and no disk failed."""
    lost, problems = 0, []
    path = folder / "state" / made.flow.plan.name / "flow.db"
    if path.exists():
        options = {
            log: LogOptions(options["max_bytes"], None, options["backpressure"])
            for log, options in made.logs.items()
        }
        with DurableStore.open(path, options) as store:
            for log in made.logs:
                problems += _log_laws(store, log, made, folder)
                lost += sum(each.count for each in store.lost(log))
    for sink, expected in made.expected.items():
        problems += _sink_laws(made, sink, expected, folder / sink, lost, is_gentle)
    return problems


def _log_laws(store: DurableStore, log: str, made: RandomFlow, folder: Path) -> Iterator[str]:
    """Every element of the log came back, or is in a lost range, or is still stored."""
    end, statistics = store.next_sequence(log), store.statistics(log)
    lost = {at for each in store.lost(log) for at in range(each.first, each.last + 1)}
    runs = _tapped_runs(folder / made.taps[log])
    tapped = {at for run in runs for at in run}
    rows = store.read(log, store.acknowledged(log), 1 << 30)
    parts = [part for row in rows for part in store.unsettled(log, row.first, row.last)]
    stored = {at for first, last in parts for at in range(first, last + 1)}
    if missing := set(range(end)) - tapped - lost - stored:
        yield f"log {log}: {len(missing)} of {end} are nowhere, from {min(missing)} on"
    if len(lost) != statistics.dropped + statistics.expired + statistics.corrupt:
        yield f"log {log}: {len(lost)} in lost ranges, but {statistics} counts others"
    if statistics.corrupt:
        yield f"log {log}: {statistics.corrupt} damaged"
    if statistics.elements != len(stored):
        yield f"log {log}: {statistics.elements} counted, {len(stored)} stored"
    if made.logs[log]["order"] == "oldest-first" and any(run != sorted(set(run)) for run in runs):
        yield f"log {log}: not in order"


def _tapped_runs(file: Path) -> list[list[int]]:
    runs: list[list[int]] = []
    for line in file.read_text().splitlines() if file.exists() else ():
        if line == "run":
            runs.append([])
        elif line:
            runs[-1].append(int(line))
    return runs


def _sink_laws(
    made: RandomFlow, sink: str, expected: set[int], file: Path, lost: int, is_gentle: bool
) -> Iterator[str]:
    delivered = [int(found) for found in file.read_text().replace("\n", ",").split(",") if found]
    counts = Counter(delivered)
    missing = expected - set(counts)
    if missing and not lost:
        yield f"{sink}: {len(missing)} of {len(expected)} are missing, from {min(missing)} on"
    if extra := set(counts) - expected:
        yield f"{sink}: {len(extra)} were filtered and delivered"
    if made.is_ordered and not lost and list(counts) != sorted(counts):
        yield f"{sink}: not in order"
    repeated = sum(counts.values()) - len(counts)
    if is_gentle and repeated and not made.may_repeat:
        yield f"{sink}: {repeated} were repeated although nothing was killed"
