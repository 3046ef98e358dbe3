"""Statistics of a run: read when it ends, named when somebody looks."""

from __future__ import annotations

import pickle
import threading
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

import torvyn
from torvyn._flow.statistics import Statistics


def run_flow() -> Statistics:
    return torvyn.Flow(["a", "b"], torvyn.sink(lambda element: None)).run()


def test_statistics_are_those_of_the_end_whenever_they_are_read():
    flow = torvyn.Flow(["a", "b"], torvyn.sink(lambda element: None))
    first = flow.run()

    assert flow.statistics is first
    assert [(node.received, node.passed) for node in first.nodes.values()] == [(0, 0), (2, 2)]
    assert [(edge.entered, edge.taken) for edge in first.edges] == [(2, 2)]
    assert (first.produced, first.emitted, first.unread) == (2, 2, 0)


def test_statistics_are_plain_data():
    statistics = run_flow()

    copied = pickle.loads(pickle.dumps(run_flow()))
    assert (copied.emitted, list(copied.nodes)) == (2, ["source", "sink"])
    assert replace(statistics, turns=7).turns == 7
    assert list(asdict(statistics)) == ["flow", "state", "elapsed_s", "turns", "nodes", "edges"]
    assert repr(statistics).startswith("Statistics(flow='main', state='completed'")


@pytest.mark.parametrize("name", ["flow", "nodes"])
def test_statistics_do_not_change(name: str):
    with pytest.raises(FrozenInstanceError):
        setattr(run_flow(), name, {})


def test_statistics_have_no_other_attributes():
    with pytest.raises(AttributeError, match="recieved"):
        run_flow().recieved  # type: ignore[attr-defined] # noqa: B018


def test_threads_that_read_the_same_statistics_see_the_same_counts():
    statistics, seen = run_flow(), list[int]()
    barrier = threading.Barrier(4)

    def read() -> None:
        barrier.wait()
        seen.append(statistics.nodes["sink"].passed + statistics.edges[0].taken)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [2 + 2] * 4
