"""How soon is an infinite loop interrupted, or reported if it is in Python?"""

from __future__ import annotations

import time

import torvyn
from benches.reliability.case import Case, Measurement
from benches.reliability.guests import GUESTS, new_guest, run_in_process

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
other = torvyn.Flow(["a"], new_guest(GUESTS["filter"]), torvyn.sink(lambda element: None)).start()
assert other.wait(30)
report(found[0] - began[0])
"""


def _late_ms(name: str, letter: str) -> float:
    flow = torvyn.Flow(["a"]).add("guest", new_guest(GUESTS[name], letter), call_timeout_s=LIMIT_S)
    flow.connect("source", "guest")
    started = time.perf_counter()
    try:
        list(flow) if name != "loop-sink" else flow.run()
    except torvyn.errors.DeadlineExceeded:
        return (time.perf_counter() - started - LIMIT_S) * 1e3
    raise AssertionError(f"{name} was not interrupted")


def overrun(rounds: int) -> Measurement:
    samples = [_late_ms(*entry) for _ in range(rounds) for entry in ENTRIES]
    return Measurement(
        max(samples), samples, f"the worst of {len(samples)}, including the start of the flow"
    )


def start_overrun(rounds: int) -> Measurement:
    samples = []
    for _ in range(rounds):
        for name, config in (("loop-start", ""), ("loop-filter", "i")):
            guest = new_guest(GUESTS[name], init_timeout_s=LIMIT_S)
            started = time.perf_counter()
            try:
                guest.init(config)
            except torvyn.errors.DeadlineExceeded:
                samples.append((time.perf_counter() - started - LIMIT_S) * 1e3)
    assert len(samples) == 2 * rounds
    return Measurement(max(samples), samples, f"the worst of {len(samples)}")


def teardown_overrun(rounds: int) -> Measurement:
    samples = []
    for _ in range(rounds):
        guest = new_guest(GUESTS["loop-filter"], teardown_timeout_s=LIMIT_S)
        guest.init("t")
        started = time.perf_counter()
        try:
            guest.teardown()
        except torvyn.errors.DeadlineExceeded:
            samples.append((time.perf_counter() - started - LIMIT_S) * 1e3)
    assert len(samples) == rounds
    return Measurement(max(samples), samples, f"the worst of {len(samples)}")


def report_delay_s(rounds: int) -> Measurement:
    samples = [run_in_process(REPORTED) for _ in range(rounds)]
    return Measurement(max(samples), samples, "another flow ran to its end meanwhile")


FAULT = "an infinite loop in a guest"
LATE = "ms after the deadline"
CASES = (
    Case("loop-in-calls", FAULT, "in the functions of every role", 50, LATE, overrun),
    Case("loop-in-start", FAULT, "in a start section and in `init`", 50, LATE, start_overrun),
    Case("loop-in-teardown", FAULT, "in `teardown`", 50, LATE, teardown_overrun),
    Case(
        "loop-in-python",
        "an infinite loop in Python in this process",
        "`while True`",
        1,
        "s until it is reported with its stack",
        report_delay_s,
    ),
)
