"""What does a trap cost: the next element of its flow, and everybody else?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torvyn
from benches.reliability.line import LeftOut, Line, Measured
from benches.reliability.setting import GUESTS, c_guest, part, python_guest

PHASE_S = 1.0
PHASES = 3
"""Per round: a p99 of a single second swings by a third on a quiet machine."""
FEWEST_TRAPS = 1_000
"""With fewer a round is no storm, and its ratio says nothing."""


def _replacement(flow: torvyn.Flow) -> float:
    """Milliseconds a new instance takes, `init` included."""
    list(flow)
    guest = flow.statistics.nodes["guest"].guest
    assert guest is not None
    assert guest.mean_replace_ns is not None
    return guest.mean_replace_ns / 1e6


def c_replacement(rounds: int) -> Measured:
    samples = []
    for _ in range(rounds):
        flow = torvyn.Flow(["x", "abort"] * 100, on_error="skip")
        flow.add("guest", part(c_guest())).connect("source", "guest")
        samples.append(_replacement(flow))
    return Measured(statistics.median(samples), samples, "100 traps a round")


def python_replacement(rounds: int) -> Measured:
    samples = []
    for _ in range(rounds):
        flow = torvyn.Flow(["x", "loop"] * 3 + ["x"], on_error="skip")
        flow.add("guest", part(python_guest()), call_timeout_s=0.3).connect("source", "guest")
        samples.append(_replacement(flow))
    return Measured(statistics.median(samples), samples, "3 cut calls a round")


def _p99_us() -> float:
    """Of single elements fed through a guest, for a second."""
    flow = torvyn.Flow(part(GUESTS["filter"]))
    times = []
    until = time.perf_counter() + PHASE_S
    while time.perf_counter() < until:
        started = time.perf_counter_ns()
        flow.feed("x")
        times.append(time.perf_counter_ns() - started)
    flow.cancel()
    return sorted(times)[len(times) * 99 // 100] / 1e3


def _flow(*elements: str) -> torvyn.Flow:
    """Native from end to end, so that it takes nothing of Python's lock."""
    tokens = {"tokens": elements, "repeat": 10_000_000}
    flow = torvyn.Flow(on_error="skip").add("source", "scripted", config=tokens)
    flow.add("guest", part(GUESTS["chaos"])).connect("source", "guest")
    return flow.add("sink", "null").connect("guest", "sink")


def _beside(flow: torvyn.Flow, count: Callable[[torvyn.Flow], int]) -> tuple[float, int]:
    """How the p99 of elements changes beside a busy flow, and what that flow counted meanwhile."""
    quiet = _p99_us()
    flow.start()
    before = count(flow)
    busy = _p99_us()
    counted = count(flow) - before
    flow.cancel()
    flow.wait(20)
    return busy / quiet, counted


def other_flows(rounds: int) -> Measured:
    phases = range(PHASES * rounds)
    ratios, traps = zip(*(_beside(_flow("fine", "trap"), _traps) for _ in phases), strict=True)
    if min(traps) < FEWEST_TRAPS:
        raise LeftOut(f"only {min(traps)} traps in a round: the machine is too busy for a storm")
    return Measured(statistics.median(ratios), list(ratios), f"{sum(traps):,} traps meanwhile")


def beside_no_traps(rounds: int) -> Measured:
    """The control: what a busy flow costs its neighbours when nothing goes wrong in it."""
    phases = range(PHASES * rounds)
    ratios, counts = zip(*(_beside(_flow("fine"), _produced) for _ in phases), strict=True)
    detail = f"{sum(counts):,} elements meanwhile"
    return Measured(statistics.median(ratios), list(ratios), detail)


def _produced(flow: torvyn.Flow) -> int:
    return flow.statistics.produced


def _traps(flow: torvyn.Flow) -> int:
    guest = flow.statistics.nodes["guest"].guest
    assert guest is not None
    return guest.traps


FAULT = "a component traps"
NEW = "ms to a new instance"
LINES = (
    Line(
        "trap-replacement-c",
        FAULT,
        "abort in C under skip",
        1,
        NEW,
        c_replacement,
    ),
    Line(
        "trap-replacement-python",
        FAULT,
        "a cut call of a guest in Python under skip",
        10,
        NEW,
        python_replacement,
    ),
    Line(
        "trap-storm-others",
        "a storm of traps",
        "every second element traps, on another worker",
        1.1,
        "x the p99 of another flow's elements",
        other_flows,
    ),
    Line(
        "busy-flow-others",
        "no fault, the control of the storm",
        "the same flow without traps",
        1.1,
        "x the p99 of another flow's elements",
        beside_no_traps,
    ),
)
