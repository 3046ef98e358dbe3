"""A durable flow at a fixed rate whose graph changes at random moments, beside a segment that does
not change.

Importing this imports torvyn.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from dataclasses import dataclass

import torvyn
from benches.swap_workload import Journal, PacedNumbers, Recorder, Version
from torvyn._link.plan import Plan


class Pass(torvyn.Processor):
    """Comes and goes."""

    def process(self, element: torvyn.Element) -> torvyn.Element:
        return element


@dataclass(frozen=True, slots=True)
class ExchangedRun:
    pauses_ms: list[float]
    """Of the segment that changes, from when it is held to when it goes on."""
    lateness_ms: list[float]
    """Of every element that passes it, from when it was due to its delivery."""
    beside_ms: list[float]
    """The same for the segment that does not change."""
    wrong: int
    """Elements lost, repeated or in disorder, in both."""


def run_exchanged(rate: int, changes: int, seed: int, gap_s: float = 0.05) -> ExchangedRun:
    """Adds a node and removes it again, about every `gap_s`; with 0 changes, runs as long."""
    dice, before = random.Random(seed), os.environ.get("TORVYN_RUNTIME__STATE_DIR")
    count = int(rate * gap_s * max(changes, 100) * 1.15)
    begin_s = time.perf_counter() + 0.3
    changed, beside = (Journal(count, rate, begin_s) for _ in range(2))
    parts = {
        "numbers": PacedNumbers(count, rate, begin_s),
        "stage": Version(0),
        "sink": Recorder(changed),
        "others": PacedNumbers(count, rate, begin_s),
        "other-stage": Version(0),
        "other-sink": Recorder(beside),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORVYN_RUNTIME__STATE_DIR"] = folder
        try:
            pauses_ms = _run(parts, changes, gap_s, dice)
        finally:
            if before is None:
                del os.environ["TORVYN_RUNTIME__STATE_DIR"]
            else:
                os.environ["TORVYN_RUNTIME__STATE_DIR"] = before
    wrong = sum(each.times.count(0) + each.disordered for each in (changed, beside))
    return ExchangedRun(pauses_ms, [*changed.lateness_ms], [*beside.lateness_ms], wrong)


def _run(
    parts: dict[str, torvyn.Component], changes: int, gap_s: float, dice: random.Random
) -> list[float]:
    plans = [_plan(parts, has_more=has_more) for has_more in (False, True)]
    flow = torvyn.Flow.from_plan(plans[0]).start()
    pauses_ms = []
    for number in range(1, changes + 1):
        time.sleep(dice.uniform(0, 2 * gap_s) * 0.9)
        report = flow.swap_graph(plans[number % 2])
        pauses_ms.append(max(report.pauses_ms.values()))
    flow.wait()
    return pauses_ms


def _plan(parts: dict[str, torvyn.Component], *, has_more: bool) -> Plan:
    flow = torvyn.Flow(checkpoint_s=1.0)
    for name, part in parts.items():
        flow.add(name, part)
    flow.connect("others", "other-stage").connect("other-stage", "other-sink")
    flow.connect("numbers", "stage", carrier="disk")
    if has_more:
        flow.add("more", Pass()).connect("stage", "more").connect("more", "sink")
    else:
        flow.connect("stage", "sink")
    return flow.plan
