"""Starts of a writer of which everything has expired before it was read."""

from __future__ import annotations

import contextlib
import time

import pytest
from nats_parts import Collected, chain, check_account, part, texts, wait_until

import torvyn
from nats_server import NatsServer
from torvyn._durable.nats import backend
from torvyn._flow.statistics import EdgeStatistics
from torvyn.errors import FlowError

MAX_AGE_S = 1.0
EXPIRED_S = 2.5


class Numbers(torvyn.Source):
    """Sends numbers, and then waits."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.items = iter(texts(count))
        self.acknowledged = 0

    def pull(self) -> object:
        item = next(self.items, None)
        return torvyn.PENDING.after(0.01) if item is None else item

    def acknowledge(self, count: int) -> None:
        self.acknowledged += count


def stopped_writer(count: int) -> None:
    """Sends elements, and stops without an end."""
    source = Numbers(count)
    flow = part(chain(("a", source), ("b", Collected()), max_age_s=MAX_AGE_S), "a").start()
    wait_until(lambda: source.acknowledged == count)
    flow.cancel()
    assert flow.wait(30)


def read(items: list[str], sink: Collected) -> EdgeStatistics:
    """A run of the writer that is read in time."""
    flow = chain(("a", items), ("b", sink), max_age_s=MAX_AGE_S)
    reader = part(flow, "b").start()
    part(flow, "a").run()
    assert reader.wait(30)
    check_account(reader)
    return reader.statistics.edges[0]


def account(edge: EdgeStatistics) -> tuple[int, int, int]:
    return edge.entered, edge.taken, edge.dropped


def test_they_are_counted_when_a_later_start_is_read(server: NatsServer) -> None:
    sink = Collected()
    assert account(read(texts(10), sink)) == (10, 10, 0)
    stopped_writer(100)
    stopped_writer(30)
    time.sleep(EXPIRED_S)

    assert account(read(texts(20), sink)) == (150, 20, 130)
    # The next run does not count them again.
    assert account(read(texts(5), sink)) == (5, 5, 0)


def test_they_are_counted_by_a_reader_that_has_read_nothing_yet(server: NatsServer) -> None:
    stopped_writer(100)
    time.sleep(EXPIRED_S)

    assert account(read([], Collected())) == (100, 0, 100)


def test_a_run_whose_end_has_expired_too_is_counted(server: NatsServer) -> None:
    part(chain(("a", texts(40)), ("b", Collected()), max_age_s=MAX_AGE_S), "a").run()
    time.sleep(EXPIRED_S)

    assert account(read(texts(20), Collected())) == (60, 20, 40)


def test_a_reader_that_was_told_to_forget_counts_nothing(server: NatsServer) -> None:
    stopped_writer(100)
    time.sleep(EXPIRED_S)
    flow = chain(("a", texts(20)), ("b", Collected()), max_age_s=MAX_AGE_S)
    reader = part(flow, "b")
    reader.is_fresh = True
    reader.start()
    part(flow, "a").run()
    assert reader.wait(30)
    assert account(reader.statistics.edges[0]) == (20, 20, 0)


def test_what_a_writer_that_was_killed_has_saved_is_counted(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes its place, so that it saves nothing in the end."""
    monkeypatch.setattr(backend, "CHECK_S", 0.1)
    source = Numbers(100)
    killed = part(chain(("a", source), ("b", Collected()), max_age_s=MAX_AGE_S), "a").start()
    wait_until(lambda: source.acknowledged == 100)
    time.sleep(EXPIRED_S)

    assert account(read(texts(20), Collected())) == (120, 20, 100)
    killed.cancel()
    with contextlib.suppress(FlowError):  # If it has noticed.
        killed.wait(30)


def test_one_process_counts_what_an_earlier_one_has_sent(server: NatsServer) -> None:
    stopped_writer(100)
    time.sleep(EXPIRED_S)
    flow = chain(("a", texts(20)), ("b", Collected()), max_age_s=MAX_AGE_S)
    flow.run()
    assert account(flow.statistics.edges[0]) == (120, 20, 100)
    check_account(flow)
