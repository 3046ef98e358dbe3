"""What does a trap cost the next element of its flow, and other flows?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torvyn
from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import GUESTS, c_guest, new_guest, python_guest

PHASE_S = 1.0
PHASES = 3
"""Per round, because the p99 of one second varies by a third on an idle machine."""
MIN_TRAPS = 1_000
"""With fewer traps, the ratio of a round has no meaning."""


def _replacement(flow: torvyn.Flow) -> float:
    """Milliseconds to create a new instance, including `init`."""
    list(flow)
    guest = flow.statistics.nodes["guest"].guest
    assert guest is not None
    assert guest.mean_replace_ns is not None
    return guest.mean_replace_ns / 1e6


def c_replacement(rounds: int) -> Measurement:
    samples = []
    for _ in range(rounds):
        flow = torvyn.Flow(["x", "abort"] * 100, on_error="skip")
        flow.add("guest", new_guest(c_guest())).connect("source", "guest")
        samples.append(_replacement(flow))
    return Measurement(statistics.median(samples), samples, "100 traps per round")


def python_replacement(rounds: int) -> Measurement:
    samples = []
    for _ in range(rounds):
        flow = torvyn.Flow(["x", "loop"] * 3 + ["x"], on_error="skip")
        flow.add("guest", new_guest(python_guest()), call_timeout_s=0.3).connect("source", "guest")
        samples.append(_replacement(flow))
    return Measurement(statistics.median(samples), samples, "3 interrupted calls per round")


def _p99_us() -> float:
    """The p99 of single elements fed through a guest, for a second."""
    flow = torvyn.Flow(new_guest(GUESTS["filter"]))
    times = []
    end_s = time.perf_counter() + PHASE_S
    while time.perf_counter() < end_s:
        started = time.perf_counter_ns()
        flow.feed("x")
        times.append(time.perf_counter_ns() - started)
    flow.cancel()
    return sorted(times)[len(times) * 99 // 100] / 1e3


def _flow(*elements: str) -> torvyn.Flow:
    """A flow without Python stages, so that it never needs Python's lock."""
    tokens = {"tokens": elements, "repeat": 10_000_000}
    flow = torvyn.Flow(on_error="skip").add("source", "scripted", config=tokens)
    flow.add("guest", new_guest(GUESTS["chaos"])).connect("source", "guest")
    return flow.add("sink", "null").connect("guest", "sink")


def _with_busy_flow(flow: torvyn.Flow, count: Callable[[torvyn.Flow], int]) -> tuple[float, int]:
    """The ratio of the p99 with and without a busy flow, and what that flow counted."""
    quiet = _p99_us()
    flow.start()
    before = count(flow)
    busy = _p99_us()
    counted = count(flow) - before
    flow.cancel()
    flow.wait(20)
    return busy / quiet, counted


def other_flows(rounds: int) -> Measurement:
    phases = range(PHASES * rounds)
    ratios, traps = zip(
        *(_with_busy_flow(_flow("fine", "trap"), _traps) for _ in phases), strict=True
    )
    if min(traps) < MIN_TRAPS:
        raise SkipCase(f"only {min(traps)} traps in a round: the machine is too busy")
    return Measurement(statistics.median(ratios), list(ratios), f"{sum(traps):,} traps meanwhile")


def control(rounds: int) -> Measurement:
    """The control: what a busy flow without traps costs other flows."""
    phases = range(PHASES * rounds)
    ratios, counts = zip(*(_with_busy_flow(_flow("fine"), _produced) for _ in phases), strict=True)
    detail = f"{sum(counts):,} elements meanwhile"
    return Measurement(statistics.median(ratios), list(ratios), detail)


def _produced(flow: torvyn.Flow) -> int:
    return flow.statistics.produced


def _traps(flow: torvyn.Flow) -> int:
    guest = flow.statistics.nodes["guest"].guest
    assert guest is not None
    return guest.traps


FAULT = "a component traps"
NEW = "ms per new instance"
CASES = (
    Case(
        "trap-replacement-c",
        FAULT,
        "abort in C, policy skip",
        1,
        NEW,
        c_replacement,
    ),
    Case(
        "trap-replacement-python",
        FAULT,
        "an interrupted call of a Python guest, policy skip",
        10,
        NEW,
        python_replacement,
    ),
    Case(
        "trap-storm-others",
        "many traps",
        "every second element traps, on another worker",
        1.1,
        "x the p99 of another flow's elements",
        other_flows,
    ),
    Case(
        "busy-flow-others",
        "none, the control of the case above",
        "the same flow without traps",
        1.1,
        "x the p99 of another flow's elements",
        control,
    ),
)
