"""A trap costs one element and the guest's state, and nobody else anything."""

from __future__ import annotations

import time

import pytest
from faulty import Part

import torvyn
from torvyn.testing import CollectingSink

TRAPS = {
    "trap": "unreachable",
    "divide": "integer divide by zero",
    "out": "out of bounds memory access",
    "stack": "call stack exhausted",
}


@pytest.mark.parametrize("fault", TRAPS)
def test_under_skip_exactly_one_element_is_hit(part: Part, fault: str) -> None:
    flow = torvyn.Flow(["before", fault, "after"], part("chaos"), on_error="skip")

    assert [element.text for element in flow] == ["before", "after"]
    node = flow.statistics.nodes["processor"]
    assert (node.errors, node.failed) == (1, 1)
    assert node.guest is not None
    assert (node.guest.traps, node.guest.state_lost, node.guest.replaced) == (1, 1, 1)
    assert node.guest.mean_replace_ns is not None
    assert node.guest.mean_replace_ns < 10 * 1e6


@pytest.mark.parametrize("fault", TRAPS)
def test_the_error_says_what_trapped(part: Part, fault: str) -> None:
    with pytest.raises(torvyn.errors.Internal, match=TRAPS[fault]) as caught:
        list(torvyn.Flow([fault], part("chaos")))

    assert (caught.value.node, caught.value.sequence) == ("processor", 0)


def test_a_guests_own_error_keeps_its_state(part: Part) -> None:
    flow = torvyn.Flow(["error", "fine"], part("chaos"), on_error="skip")

    assert [element.text for element in flow] == ["fine"]
    guest = flow.statistics.nodes["processor"].guest
    assert guest is not None
    assert (guest.traps, guest.state_lost) == (0, 0)


def test_a_retried_trap_meets_a_new_instance(part: Part) -> None:
    policy = {"policy": "retry", "max": 2, "backoff": "1ms", "then": "skip"}
    flow = torvyn.Flow(["trap", "fine"], part("chaos"), on_error=policy)

    assert [element.text for element in flow] == ["fine"]
    guest = flow.statistics.nodes["processor"].guest
    assert guest is not None
    assert (guest.traps, guest.replaced) == (3, 3)


def pass_all(part: Part) -> float:
    """Seconds that a flow of one guest takes for some thousand elements."""
    flow = torvyn.Flow(["fine"] * 2000, part("filter"), CollectingSink())
    started = time.perf_counter()
    flow.run()
    return time.perf_counter() - started


def test_other_flows_keep_their_pace_in_a_storm_of_traps(part: Part) -> None:
    quiet = min(pass_all(part) for _ in range(3))
    storm = torvyn.Flow(
        torvyn.source(lambda: iter(["trap", "fine"] * 20_000)),
        part("chaos"),
        CollectingSink(),
        on_error="skip",
    ).start()
    stormy = min(pass_all(part) for _ in range(3))
    storm.cancel()
    storm.wait(20)

    assert stormy < 10 * quiet + 0.05
