"""The harness: entries run in interleaved rounds (A B C A B C ...), so drift affects all of them.

It returns medians, quartiles and ratios. A ratio is the median of the ratios of each round to the
baseline of the same round. It must never time an entry before checking its result.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benches.work import Result

Run = Callable[[list[str]], Result]


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    version: str
    run: Run
    proof: Run | None = None
    """The same flow with a sink that keeps the text, where the timed sink only counts."""


@dataclass(slots=True)
class Timing:
    """One entry's seconds per round; None for a round it skipped."""

    entry: Entry
    wall_s: list[float | None] = field(default_factory=list)
    cpu_s: list[float | None] = field(default_factory=list)

    @property
    def walls(self) -> list[float]:
        return [wall for wall in self.wall_s if wall is not None]

    @property
    def cpus(self) -> list[float]:
        return [cpu for cpu in self.cpu_s if cpu is not None]


def prove(entries: Sequence[Entry], tokens: list[str], right: Result) -> None:
    """Run each entry once and compare; this also warms it up (imports, caches, first tasks)."""
    for entry in entries:
        _say(f"checking {entry.name}")
        shown = (entry.proof or entry.run)(tokens)
        timed = entry.run(tokens) if entry.proof else shown
        _same(f"{entry.name} (text)", (shown.sentences, shown.filtered, shown.checksum), right)
        _same(entry.name, (timed.sentences, timed.filtered, right.checksum), right)


def interleave(
    entries: Sequence[Entry], tokens: list[str], rounds: int, budget_s: float
) -> list[Timing]:
    """Time every entry once per round; one that has used `budget_s` stops after three."""
    timings = [Timing(entry) for entry in entries]
    gc.collect()
    # Modules that the entries imported must not lengthen each other's garbage collections.
    gc.freeze()
    for number in range(rounds):
        _say(f"round {number + 1} of {rounds}")
        for timing in timings:
            spent = sum(timing.walls)
            if len(timing.walls) >= 3 and spent >= budget_s:
                timing.wall_s.append(None)
                timing.cpu_s.append(None)
                continue
            wall, cpu = _time(timing.entry.run, tokens)
            timing.wall_s.append(wall)
            timing.cpu_s.append(cpu)
    gc.unfreeze()
    return timings


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def ratio(timing: Timing, baseline: Timing) -> float:
    """The ratio to the baseline's time, over rounds in which both ran."""
    pairs = zip(timing.wall_s, baseline.wall_s, strict=True)
    return statistics.median(a / b for a, b in pairs if a is not None and b is not None)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that a share of at least `part` does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _time(run: Run, tokens: list[str]) -> tuple[float, float]:
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    result = run(tokens)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    del result
    return wall, cpu


def _same(name: str, got: tuple[int, int, str], right: Result) -> None:
    want = (right.sentences, right.filtered, right.checksum)
    if got != want:
        raise AssertionError(
            f"{name} did different work: (sentences, filtered, digest) {got}, not {want}"
        )


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
