"""What does a trap cost: the next element of its flow, and everybody else?"""

from __future__ import annotations

import statistics
import time

import torvyn
from benches.reliability.line import Line, Measured
from benches.reliability.setting import GUESTS, c_guest, part, python_guest

FEEDS = 3_000


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
    """Of single elements fed through a guest."""
    flow = torvyn.Flow(part(GUESTS["filter"]))
    times = []
    for _ in range(FEEDS):
        started = time.perf_counter_ns()
        flow.feed("x")
        times.append(time.perf_counter_ns() - started)
    flow.cancel()
    return sorted(times)[FEEDS * 99 // 100] / 1e3


def _storm() -> torvyn.Flow:
    """Native from end to end, so that it takes nothing of Python's lock."""
    tokens = {"tokens": ["fine", "trap"], "repeat": 10_000_000}
    flow = torvyn.Flow(on_error="skip").add("source", "scripted", config=tokens)
    flow.add("guest", part(GUESTS["chaos"])).connect("source", "guest")
    return flow.add("sink", "null").connect("guest", "sink")


def other_flows(rounds: int) -> Measured:
    ratios, traps = [], 0
    for _ in range(rounds):
        quiet = _p99_us()
        storm = _storm().start()
        stormy = _p99_us()
        storm.cancel()
        storm.wait(20)
        guest = storm.statistics.nodes["guest"].guest
        assert guest is not None
        traps += guest.traps
        ratios.append(stormy / quiet)
    return Measured(statistics.median(ratios), ratios, f"{traps:,} traps meanwhile")


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
)
