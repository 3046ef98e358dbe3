"""When the run of a segment that reads from the broker is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats_parts import Collected, Sum, chain, check_account, part, run_parts, texts

import torvyn
from nats_server import NatsServer
from torvyn._durable.nats import backend, entry
from torvyn._durable.nats.edges import RunEnds
from torvyn._durable.nats.names import BatchId
from torvyn.errors import FlowError


def end(writer: int, run: str) -> BatchId:
    return BatchId(writer, "c", run, 0, 0, 0)


def keyed(sink: Collected, **options: Any) -> torvyn.Flow:
    """Two replicas of the segment in the middle write to the sink."""
    flow = torvyn.Flow(name="main")
    place: Any = {"replicas": 2}
    flow.add("a", [f'{{"key": "k{number % 8}"}}' for number in range(80)])
    flow.add("count", Count, key="key", place=place).add("b", sink)
    flow.connect("a", "count", carrier="nats", **options)
    return flow.connect("count", "b", carrier="nats", **options)


class Count(torvyn.Processor):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def process(self, element: torvyn.Element) -> str:
        self.count += 1
        return f"{element.text} {self.count}"

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


def test_the_end_of_another_run_does_not_end_a_run_with_a_name(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(50)), ("b", sink))
    part(flow, "a", run="first").run()
    part(flow, "a", run="second").run()
    reader = part(flow, "b", run="second")
    reader.run()
    assert sink.texts == texts(50) * 2
    check_account(reader)


def test_without_names_each_run_of_a_reader_takes_one_run_of_the_writer(
    server: NatsServer,
) -> None:
    sink = Collected()
    flow = chain(("a", texts(50)), ("b", sink))
    for _ in range(3):
        part(flow, "a").run()
    for number in range(1, 4):
        part(flow, "b").run()
        assert sink.texts == texts(50) * number


@pytest.mark.timeout(60)
def test_a_writer_that_is_a_run_ahead_has_its_end_counted_in_the_next_run(
    server: NatsServer,
) -> None:
    sink = Collected()
    flow = keyed(sink)
    for _ in range(2):
        part(flow, "a").run()
    for replica in (0, 1):
        for _ in range(2):
            part(flow, "count", replica=replica).run()
    for _ in range(2):
        part(flow, "b").run()
    assert len(sink.texts) == 160


@pytest.mark.timeout(60)
def test_two_writers_end_on_an_edge_that_holds_one_message(server: NatsServer) -> None:
    sink = Collected()
    flow = keyed(sink, max_waiting=1)
    parts = [part(flow, "count", replica=replica) for replica in (0, 1)]
    run_parts([part(flow, "b"), *parts, part(flow, "a")])
    assert len(sink.texts) == 80


def test_a_flow_in_one_process_ends_with_its_own_run(server: NatsServer) -> None:
    sink = Collected()
    flow = chain(("a", texts(50)), ("sum", Sum()), ("b", sink))
    part(flow, "a").run()
    flow.run()
    assert len(sink.texts) == 100


@given(st.lists(st.integers(0, 2), max_size=40))
def test_a_run_without_a_name_ends_when_every_writer_has_ended_once_more(
    order: list[int],
) -> None:
    """Whatever the order of the writers' ends, and with a restart after each of them."""
    expected = [(writer, 0) for writer in range(3)]
    ended, finished = [0, 0, 0], 0
    ends = RunEnds(expected, "")
    for writer in order:
        ends.add(end(writer, f"r{ended[writer]}"))
        ends.add(end(writer, f"r{ended[writer]}"))
        ended[writer] += 1
        ends = RunEnds(expected, "", ends.to_json())
        while ends.are_complete:
            ends.use()
            finished += 1
            ends = RunEnds(expected, "", ends.to_json())
    assert finished == min(ended)


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_a_run_with_a_name_ends_with_the_ends_of_that_name(order: list[str]) -> None:
    ends = RunEnds([(0, 0), (1, 0)], "b")
    for run in order:
        ends.add(end(0, run))
        ends = RunEnds([(0, 0), (1, 0)], "b", ends.to_json())
        assert not ends.are_complete
    ends.add(end(1, "b"))
    assert ends.are_complete == ("b" in order)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "PATIENCE_S", 0.0)
    monkeypatch.setattr(backend, "CHECK_S", 0.2)


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("is_first", [True, False])
def test_a_run_with_a_name_behind_a_writer_without_one_is_refused(
    server: NatsServer, is_first: bool
) -> None:
    sink = Collected()
    flow = chain(("a", texts(50)), ("b", sink))
    reader = part(flow, "b", run="night")
    if is_first:
        reader.start()
    part(flow, "a").run()
    if not is_first:
        reader.start()

    with pytest.raises(FlowError, match="has ended in a run without a name") as caught:
        reader.wait(30)

    assert caught.value.code == "broker.run-unnamed"
    # What was sent is kept, and the end of the writer as well.
    part(flow, "b").run()
    assert sink.texts == texts(50)


@pytest.mark.usefixtures("short_patience")
def test_ends_that_earlier_runs_without_a_name_have_used_are_no_reason(
    server: NatsServer,
) -> None:
    sink = Collected()
    flow = chain(("a", texts(50)), ("b", sink))
    run_parts([part(flow, "a"), part(flow, "b")])
    reader = part(flow, "b", run="night").start()
    assert not reader.wait(1)
    part(flow, "a", run="night").run()
    assert reader.wait(30)
    assert sink.texts == texts(50) * 2


@pytest.mark.usefixtures("short_patience")
def test_a_writer_that_was_started_with_the_name_meanwhile_is_waited_for(
    server: NatsServer,
) -> None:
    sink, is_due = Collected(), threading.Event()

    def numbers() -> Iterator[str]:
        yield "first"
        is_due.wait(30)
        yield "last"

    part(chain(("a", texts(50)), ("b", sink)), "a").run()
    writer = part(chain(("a", numbers()), ("b", sink)), "a", run="night").start()
    reader = part(chain(("a", []), ("b", sink)), "b", run="night").start()
    assert not reader.wait(1)
    is_due.set()
    assert writer.wait(30)
    assert reader.wait(30)
    assert sink.texts == [*texts(50), "first", "last"]
