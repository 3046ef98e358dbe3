"""A guest that traps on every call is left alone for longer and longer; the others live."""

from __future__ import annotations

import time

from faulty import Part

import torvyn
from torvyn.testing import CollectingSink


def test_the_breaker_opens_and_refuses(part: Part) -> None:
    flow = torvyn.Flow(["trap"] * 50, part("chaos"), on_error="skip")

    assert list(flow) == []
    guest = flow.statistics.nodes["processor"].guest
    assert guest is not None
    assert guest.traps == 5
    assert guest.refused == 45


def test_the_rest_doubles_while_it_goes_on_trapping(part: Part) -> None:
    flow = torvyn.Flow(part("chaos"), on_error="skip")
    started = time.monotonic()
    traps = []
    while time.monotonic() - started < 1:
        flow.feed("trap")
        guest = flow.statistics.nodes["processor"].guest
        assert guest is not None
        if guest.traps > len(traps):
            traps.append(time.monotonic() - started)
    flow.cancel()

    # Five at once; after 100 ms the sixth, after 200 more the seventh, after 400 more the eighth.
    assert 7 <= len(traps) <= 8
    assert traps[6] - traps[5] > 0.19


def test_it_works_again_after_the_rest(part: Part) -> None:
    flow = torvyn.Flow(part("chaos"), on_error="skip")
    flow.feed(["trap"] * 6)
    started = time.monotonic()
    while not flow.feed("fine"):
        assert time.monotonic() - started < 10
    flow.cancel()

    assert time.monotonic() - started < 10


def test_a_source_that_traps_is_asked_again_and_does_not_spin(part: Part) -> None:
    flow = torvyn.Flow(on_error="skip")
    flow.add("source", part("loop-source", "e"), call_timeout_s=0.01)
    flow.add("sink", CollectingSink()).connect("source", "sink").start()
    started = time.monotonic()
    while flow.statistics.nodes["source"].guest.refused < 2:  # type: ignore[union-attr]
        assert time.monotonic() - started < 10
    flow.cancel()

    assert flow.wait(20)
    assert flow.statistics.nodes["source"].errors < 20


def test_others_live_beside_a_crash_loop(part: Part) -> None:
    crashing = torvyn.Flow(
        ["trap"] * 100_000, part("chaos"), CollectingSink(), on_error="skip"
    ).start()
    sink = CollectingSink()
    torvyn.Flow(["a", "b"], part("filter"), sink).run()
    crashing.cancel()

    assert sink.texts == ["a"]
    assert crashing.wait(20)
