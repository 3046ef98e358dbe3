"""Guests in a process that has no room for the pool, and the pool of one that has."""

from __future__ import annotations

import pytest
from faulty import GUESTS, Apart

FLOW = """
import resource
if sys.argv[2] != "unlimited":
    most = int(sys.argv[2]) << 30
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
flow = torvyn.Flow(["fine", "trap"] * 50, on_error="skip").add("guest", part(sys.argv[1]))
made = list(flow.connect("source", "guest").text())
large = torvyn.Flow(["memory"], on_error="skip")
large.add("guest", part(sys.argv[1]), max_memory_bytes=80 << 20).connect("source", "guest")
list(large)
maps = Path("/proc/self/status").read_text().splitlines()
reserved = next(int(line.split()[1]) << 10 for line in maps if line.startswith("VmPeak"))
answer({
    "made": made,
    "traps": flow.statistics.nodes["guest"].guest.traps,
    "replaced": flow.statistics.nodes["guest"].guest.replaced,
    "refused": large.statistics.nodes["guest"].errors,
    "reserved_gib": reserved >> 30,
})
"""


@pytest.mark.parametrize(("address_space_gib", "pooled"), [("unlimited", True), ("16", False)])
def test_guests_run_with_and_without_the_pool(
    apart: Apart, address_space_gib: str, pooled: bool
) -> None:
    found = apart(FLOW, GUESTS["chaos"], address_space_gib)

    assert found["made"] == ["fine"] * 50
    assert (found["traps"], found["replaced"]) == (50, 49)
    assert found["refused"] == 1
    assert (found["reserved_gib"] >= 256) == pooled


LEFT = """
def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))

def wave():
    guests = [part(sys.argv[1]) for _ in range(500)]
    for guest in guests:
        guest.init("")
    for guest in guests:
        guest.teardown()

wave()
before = resident()
for _ in range(5):
    wave()
answer(resident() - before)
"""


def test_guests_that_come_and_go_leave_nothing_more_behind(apart: Apart) -> None:
    assert apart(LEFT, GUESTS["chaos"]) < 8 << 20
