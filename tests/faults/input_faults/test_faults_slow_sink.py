"""A sink that never takes: what waits is the queue's capacity, and the source is held back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from faulty import Part

import torvyn
from torvyn.testing import CountingSource

CAPACITY = 16


@pytest.mark.parametrize("stage", [None, "processor", "filter"])
def test_the_queue_stands_at_its_capacity(part: Part, stage: str | None) -> None:
    release = threading.Event()
    source = CountingSource()
    flow = torvyn.Flow(queue_depth=CAPACITY).add("source", source)
    flow.add("sink", torvyn.sink(stalling(release)), run="thread")
    if stage is not None:
        flow.add("stage", part(stage)).connect("source", "stage").connect("stage", "sink")
    else:
        flow.connect("source", "sink")
    flow.start()
    try:
        settled(flow)
        edges = flow.statistics.edges
        assert [edge.depth for edge in edges] == [CAPACITY] * len(edges)
        # Those that wait, and one in the sink's hand.
        assert source.sent == CAPACITY * len(edges) + 1
    finally:
        flow.cancel()
        release.set()
    assert flow.wait(20)


def stalling(release: threading.Event) -> Callable[[torvyn.Element], None]:
    def push(element: torvyn.Element) -> None:
        release.wait(20)

    return push


def settled(flow: torvyn.Flow) -> None:
    """Waits until nothing moves any more."""
    started = time.monotonic()
    while not all(edge.depth == edge.peak >= CAPACITY for edge in flow.statistics.edges):
        assert time.monotonic() - started < 20
        threading.Event().wait(0.001)
    turns = -1
    while turns != flow.statistics.turns:
        turns = flow.statistics.turns
        threading.Event().wait(0.05)
