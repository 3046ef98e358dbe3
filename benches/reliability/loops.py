"""How late is a loop cut, and how soon is one in Python reported?"""

from __future__ import annotations

import time

import torvyn
from benches.reliability.line import Line, Measured
from benches.reliability.setting import GUESTS, apart, part

LIMIT_S = 0.2
ENTRIES = [
    *((name, "e") for name in ("loop-processor", "loop-filter", "loop-guard", "loop-aggregator")),
    *(("loop-sink", letter) for letter in "el"),
    ("loop-aggregator", "l"),
]
REPORTED = """
import logging, threading, time, torvyn

class Capture(logging.Handler):
    def emit(self, record):
        if getattr(record, "event", "") == "worker.blocked" and "in looping" in record.getMessage():
            found.append(time.monotonic())
            seen.set()

def looping(element):
    began.append(time.monotonic())
    while True:
        pass

found, began, seen = [], [], threading.Event()
logging.getLogger("torvyn").addHandler(Capture())
torvyn.Flow(["a"], torvyn.processor(looping), torvyn.sink(print)).start()
assert seen.wait(30)
other = torvyn.Flow(["a"], part(GUESTS["filter"]), torvyn.sink(lambda element: None)).start()
assert other.wait(30)
answer(found[0] - began[0])
"""


def _late_ms(name: str, letter: str) -> float:
    flow = torvyn.Flow(["a"]).add("guest", part(GUESTS[name], letter), call_timeout_s=LIMIT_S)
    flow.connect("source", "guest")
    started = time.perf_counter()
    try:
        list(flow) if name != "loop-sink" else flow.run()
    except torvyn.errors.DeadlineExceeded:
        return (time.perf_counter() - started - LIMIT_S) * 1e3
    raise AssertionError(f"{name} was not cut")


def overrun(rounds: int) -> Measured:
    samples = [_late_ms(*entry) for _ in range(rounds) for entry in ENTRIES]
    return Measured(
        max(samples), samples, f"the worst of {len(samples)}, start of the flow included"
    )


def start_overrun(rounds: int) -> Measured:
    samples = []
    for _ in range(rounds):
        for name, config in (("loop-start", ""), ("loop-filter", "i")):
            guest = part(GUESTS[name], init_timeout_s=LIMIT_S)
            started = time.perf_counter()
            try:
                guest.init(config)
            except torvyn.errors.DeadlineExceeded:
                samples.append((time.perf_counter() - started - LIMIT_S) * 1e3)
    assert len(samples) == 2 * rounds
    return Measured(max(samples), samples, f"the worst of {len(samples)}")


def teardown_overrun(rounds: int) -> Measured:
    samples = []
    for _ in range(rounds):
        guest = part(GUESTS["loop-filter"], teardown_timeout_s=LIMIT_S)
        guest.init("t")
        started = time.perf_counter()
        try:
            guest.teardown()
        except torvyn.errors.DeadlineExceeded:
            samples.append((time.perf_counter() - started - LIMIT_S) * 1e3)
    assert len(samples) == rounds
    return Measured(max(samples), samples, f"the worst of {len(samples)}")


def reported(rounds: int) -> Measured:
    samples = [apart(REPORTED) for _ in range(rounds)]
    return Measured(max(samples), samples, "another flow ran to its end beside it")


FAULT = "an infinite loop in a guest"
LATE = "ms after the deadline"
LINES = (
    Line("loop-in-calls", FAULT, "in the functions of every role", 50, LATE, overrun),
    Line("loop-in-start", FAULT, "in a start section and in `init`", 50, LATE, start_overrun),
    Line("loop-in-teardown", FAULT, "in `teardown`", 50, LATE, teardown_overrun),
    Line(
        "loop-in-python",
        "an infinite loop in Python in this process",
        "`while True`",
        1,
        "s until it is reported with its stack",
        reported,
    ),
)
