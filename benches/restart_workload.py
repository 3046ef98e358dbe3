"""A durable flow at a fixed rate that restarts from its checkpoint with another graph, at random
moments and in one process.

Importing this imports torvyn.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torvyn
from benches.swap_workload import Journal, PacedNumbers, Recorder, Version
from torvyn._flow.reload import Reloader
from torvyn._link.plan import Plan


class Pass(torvyn.Processor):
    """Comes and goes."""

    def process(self, element: torvyn.Element) -> torvyn.Element:
        return element


class TimedJournal(Journal):
    """Notes when each element arrived, too."""

    def __init__(self, count: int, rate: int, begin_s: float) -> None:
        super().__init__(count, rate, begin_s)
        self.arrivals_s: list[float] = []

    def note(self, text: str) -> None:
        super().note(text)
        self.arrivals_s.append(time.perf_counter())

    def longest_gap_ms(self, begin_s: float, end_s: float) -> float:
        """For how long nothing arrived, at most, around these moments."""
        times = [each for each in self.arrivals_s if begin_s - 0.1 <= each <= end_s + 0.3]
        return max(b - a for a, b in pairwise(times)) * 1e3


@dataclass(frozen=True, slots=True)
class RestartedRun:
    restarts_ms: list[float]
    """From the decision until the new components are initialized, as `torvyn reload` says it."""
    pauses_ms: list[float]
    """For how long nothing was delivered, around each restart."""
    lateness_ms: list[float]
    """Of every element, from when it was due to its delivery."""
    wrong: int
    """Elements lost, repeated or in disorder."""


def run_restarted(rate: int, changes: int, seed: int, gap_s: float = 0.4) -> RestartedRun:
    """Adds a node and removes it again, about every `gap_s`."""
    dice, before = random.Random(seed), os.environ.get("TORVYN_RUNTIME__STATE_DIR")
    count = int(rate * gap_s * (changes + 2) * 1.5)
    begin_s = time.perf_counter() + 0.3
    journal = TimedJournal(count, rate, begin_s)

    def make(*, has_more: bool) -> Plan:
        return _plan(PacedNumbers(count, rate, begin_s), Recorder(journal), has_more=has_more)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORVYN_RUNTIME__STATE_DIR"] = folder
        try:
            restarts = _run(make, changes, gap_s, dice)
        finally:
            if before is None:
                del os.environ["TORVYN_RUNTIME__STATE_DIR"]
            else:
                os.environ["TORVYN_RUNTIME__STATE_DIR"] = before
    return RestartedRun(
        [restart_ms for restart_ms, _, _ in restarts],
        [journal.longest_gap_ms(first_s, last_s) for _, first_s, last_s in restarts],
        [*journal.lateness_ms],
        journal.times.count(0) + journal.disordered,
    )


def _run(
    make: Callable[..., Plan], changes: int, gap_s: float, dice: random.Random
) -> list[tuple[float, float, float]]:
    """How long each restart took, and when it began and ended."""
    plans = [make(has_more=bool(number % 2)) for number in range(changes + 1)]
    flow, restarts = torvyn.Flow.from_plan(plans[0]).start(), []
    reloader = Reloader(flow, lambda: plans[len(restarts) + 1])
    runner = threading.Thread(target=_run_versions, args=(flow, reloader))
    runner.start()
    time.sleep(0.5)
    for _ in range(changes):
        time.sleep(dice.uniform(0.5, 1.5) * gap_s)
        begin_s = time.perf_counter()
        answer = reloader.reload({})
        restarts.append((answer["restarted_ms"], begin_s, time.perf_counter()))
    runner.join()
    return restarts


def _run_versions(flow: torvyn.Flow, reloader: Reloader) -> None:
    """As `torvyn run` does."""
    while True:
        flow.wait()
        if (plan := reloader.take_successor()) is None:
            return
        flow = torvyn.Flow.from_plan(plan)
        reloader.follow(flow)
        flow.start()


def _plan(source: torvyn.Source, sink: torvyn.Sink, *, has_more: bool) -> Plan:
    flow = torvyn.Flow(checkpoint_s=1.0).add("numbers", source)
    flow.add("stage", Version(0)).add("sink", sink)
    flow.connect("numbers", "stage", carrier="disk")
    if has_more:
        flow.add("more", Pass()).connect("stage", "more").connect("more", "sink")
    else:
        flow.connect("stage", "sink")
    return flow.plan
