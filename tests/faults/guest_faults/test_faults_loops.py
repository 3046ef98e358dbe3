"""An infinite loop is cut at its deadline, wherever the guest is when it begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from faulty import GUESTS, Apart, Part

import torvyn
from torvyn._sandbox.component import GuestComponent, GuestLimits
from torvyn.testing import CollectingSink

LIMIT_S = 0.05
CEILING_S = 5.0
"""A loop never ends by itself. How soon it is cut is measured by `benches/reliability`; here a busy
machine must not decide."""

ENTRIES = [
    ("loop-source", "e", "pull"),
    ("loop-polled", "e", "pull"),
    ("loop-processor", "e", "process"),
    ("loop-filter", "e", "evaluate"),
    ("loop-guard", "e", "evaluate"),
    ("loop-router", "e", "route"),
    ("loop-aggregator", "e", "ingest"),
    ("loop-aggregator", "l", "flush"),
    ("loop-sink", "e", "push"),
    ("loop-sink", "l", "complete"),
]
ROLES = sorted({entry[0] for entry in ENTRIES})


def flow_around(guest: object, name: str) -> torvyn.Flow:
    """The guest with what its role needs on either side."""
    flow = torvyn.Flow().add("guest", guest, call_timeout_s=LIMIT_S, init_timeout_s=LIMIT_S)
    if name not in ("loop-source", "loop-polled"):
        flow.add("in", ["a"]).connect("in", "guest")
    if name != "loop-sink":
        flow.add("out", CollectingSink())
        flow.connect("guest:a" if name == "loop-router" else "guest", "out")
    return flow


def routed(guest: GuestComponent) -> GuestComponent:
    if guest.role == "router":
        guest.ports = ("a",)  # type: ignore[misc]
    return guest


def timed(action: Callable[[], object], match: str) -> float:
    started = time.monotonic()
    with pytest.raises(torvyn.errors.TorvynError, match=match):
        action()
    return time.monotonic() - started


@pytest.mark.parametrize(("name", "config", "function"), ENTRIES)
def test_every_function_is_cut(part: Part, name: str, config: str, function: str) -> None:
    flow = flow_around(routed(part(name, config)), name)

    took_s = timed(flow.run, rf"`{function}` took longer than 0\.05 s and was stopped")

    assert LIMIT_S <= took_s < CEILING_S


@pytest.mark.parametrize("name", ROLES)
def test_a_loop_in_init_is_cut(part: Part, name: str) -> None:
    flow = flow_around(routed(part(name, "i")), name)

    took_s = timed(flow.run, r"`init` took longer than 0\.05 s and was stopped")

    assert LIMIT_S * 0.9 <= took_s < CEILING_S


@pytest.mark.parametrize("name", ROLES)
def test_a_loop_in_teardown_is_cut(part: Part, name: str) -> None:
    guest = routed(part(name, "t"))
    guest.init("t")
    guest.set_limits(GuestLimits(name, teardown_timeout_s=LIMIT_S))

    took_s = timed(guest.teardown, r"`teardown` took longer than 0\.05 s and was stopped")

    assert LIMIT_S <= took_s < CEILING_S


def test_a_loop_in_a_start_section_is_cut(part: Part) -> None:
    flow = flow_around(part("loop-start"), "loop-start")

    took_s = timed(flow.run, r"`instantiate` took longer than 0\.05 s and was stopped")

    assert LIMIT_S <= took_s < CEILING_S


@pytest.mark.parametrize("name", ["loop-source", "loop-polled"])
def test_a_loop_in_notify_backpressure_is_cut(part: Part, name: str) -> None:
    """There is no element to blame: it is counted, and the source is replaced."""
    stop = threading.Event()
    flow = torvyn.Flow(queue_depth=1)
    flow.add("guest", part(name, "n"), call_timeout_s=LIMIT_S)
    flow.add("out", torvyn.sink(lambda element: stop.wait(0.01)), run="thread")
    started = time.monotonic()
    flow.connect("guest", "out").start()
    while flow.statistics.nodes["guest"].guest.traps < 1:  # type: ignore[union-attr]
        assert time.monotonic() - started < 10
    flow.cancel()

    assert flow.wait(20)


def test_late_ticks_do_not_make_a_deadline_late(part: Part) -> None:
    """A second has a hundred ticks: were they counted, a busy machine would add to each."""
    guest = part("loop-filter", "e")
    flow = torvyn.Flow().add("in", ["a"]).add("guest", guest, call_timeout_s=1)

    took_s = timed(lambda: list(flow.connect("in", "guest")), "took longer than 1 s")

    assert 1 <= took_s < 1.5


LOOPING = """
import logging, threading, time

class Capture(logging.Handler):
    def emit(self, record):
        if getattr(record, "event", "") == "worker.blocked":
            found.append((time.monotonic(), record.getMessage()))
            seen.set()

found, seen = [], threading.Event()
logging.getLogger("torvyn").addHandler(Capture())

def looping_process(element):
    began.append(time.monotonic())
    while True:
        pass

began = []
torvyn.Flow(["a"], torvyn.processor(looping_process), torvyn.sink(print), name="stuck").start()
assert seen.wait(20)
started = time.monotonic()
other = torvyn.Flow(["a", "b"], part(sys.argv[1]), torvyn.sink(lambda element: None)).start()
assert other.wait(20)
answer({"after_s": found[0][0] - began[0], "text": found[0][1], "other": other.state,
        "other_s": time.monotonic() - started})
"""


def test_a_loop_in_in_process_python_is_reported_with_its_stack(apart: Apart) -> None:
    found = apart(LOOPING, GUESTS["filter"])

    assert found["after_s"] < 10 * 1.0
    assert "flow `stuck`" in found["text"]
    assert "in looping_process" in found["text"]
    assert found["other"] == "completed"
