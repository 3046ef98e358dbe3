"""Components with `snapshot` and `restore` continue where the last run was, exactly."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from durable_parts import AckSource, GatedSink, check_account, wait_until

import torvyn
from torvyn import Element
from torvyn._durable.backend import LostRange, Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn.errors import FlowError, StoreUnavailable


class FileNumbers(torvyn.Source):
    """Counts from its position, which it saves itself."""

    def __init__(self, count: int, run: str = "inline") -> None:
        super().__init__()
        self.run = run  # type: ignore[assignment]
        self.count = count
        self.next = 0

    def pull(self) -> str | None:
        if self.next == self.count:
            return None
        self.next += 1
        return str(self.next - 1)

    def snapshot(self) -> int:
        return self.next

    def restore(self, state: int) -> None:
        self.next = state


class Total(torvyn.Processor):
    """Adds the number of elements that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def process(self, element: Element) -> str:
        self.seen += 1
        return f"{element.text}:{self.seen}"

    def snapshot(self) -> dict[str, int]:
        return {"seen": self.seen}

    def restore(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


class OpenWindow(torvyn.Aggregator):
    """Joins ten elements; what is left at the end is flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def ingest(self, element: Element) -> str | None:
        self.texts.append(element.text)
        if len(self.texts) < 10:
            return None
        joined, self.texts = "+".join(self.texts), []
        return joined

    def flush(self) -> list[str]:
        return ["+".join(self.texts)] if self.texts else []

    def snapshot(self) -> bytes:
        return "+".join(self.texts).encode()

    def restore(self, state: bytes) -> None:
        self.texts = state.decode().split("+") if state else []


def stateful_flow(source: Any, middle: Any, sink: Any, carrier: str = "memory") -> torvyn.Flow:
    flow = torvyn.Flow(checkpoint_s=0.01)
    flow.add("in", source).add("middle", middle).add("out", sink)
    return flow.connect("in", "middle").connect("middle", "out", carrier=carrier)  # type: ignore[arg-type]


def stop_and_go(make: Any, stops: int, first: int = 7, more: int = 13, **options: Any) -> list[str]:
    """Runs a flow, stops it at different places, and lets the last run end in order."""
    texts: list[str] = []
    for stop in range(stops):
        sink = GatedSink(free=first + more * stop)
        flow = stateful_flow(*make(), sink, **options)
        flow.start()
        sink.is_blocked.wait(0.3)
        sink.gate.set()
        flow.drain()
        flow.wait()
        check_account(flow)
        texts += sink.texts
        if flow.state == "completed":
            return texts
    last = GatedSink(free=10**9)
    stateful_flow(*make(), last, **options).run()
    return texts + last.texts


@pytest.mark.parametrize("carrier", ["memory", "disk"])
@pytest.mark.parametrize("run", ["inline", "thread"])
def test_a_drained_flow_continues_exactly_where_it_was(run: str, carrier: str) -> None:
    texts = stop_and_go(lambda: (FileNumbers(20000, run), Total()), 4, carrier=carrier)
    assert texts == [f"{number}:{number + 1}" for number in range(20000)]


@pytest.mark.parametrize("carrier", ["memory", "disk"])
def test_a_window_stays_open_over_a_restart(carrier: str) -> None:
    texts = stop_and_go(lambda: (FileNumbers(5005), OpenWindow()), 3, carrier=carrier)
    numbers = [int(text) for text in itertools.chain(*(line.split("+") for line in texts))]
    assert numbers == list(range(5005))
    assert [len(line.split("+")) for line in texts] == [10] * 500 + [5]


def test_a_flow_that_has_ended_in_order_starts_afresh() -> None:
    for _ in range(2):
        sink = GatedSink(free=10**9)
        stateful_flow(FileNumbers(50), Total(), sink).run()
        assert sink.texts == [f"{number}:{number + 1}" for number in range(50)]


class FromTheEnd(FileNumbers):
    """Begins behind what was there before it."""

    def __init__(self, begin: int) -> None:
        super().__init__(10**9)
        self.next = begin
        self.is_saved = threading.Event()

    def snapshot(self) -> int:
        self.is_saved.set()
        return super().snapshot()


def test_where_a_source_begins_is_saved_before_the_first_interval_ends() -> None:
    sinks = []
    for begin in (40, 0):
        source, sink = FromTheEnd(begin), GatedSink(free=10**9)
        flow = torvyn.Flow(checkpoint_s=3600).add("in", source).add("out", sink)
        flow.connect("in", "out").start()
        wait_until(lambda source=source, sink=sink: source.is_saved.is_set() and bool(sink.texts))  # type: ignore[misc]
        flow.cancel()
        flow.wait()
        sinks.append(sink)

    assert int(sinks[1].texts[0]) >= 40


def leave_a_checkpoint() -> int:
    """Runs a flow until it is drained, and returns how far it came."""
    sink = GatedSink(free=100)
    flow = stateful_flow(FileNumbers(10**9), Total(), sink)
    flow.start()
    assert sink.is_blocked.wait(20)
    sink.gate.set()
    flow.drain()
    flow.wait()
    return len(sink.texts)


def test_fresh_discards_the_saved_state() -> None:
    assert leave_a_checkpoint() >= 100
    sink = GatedSink(free=10**9)
    flow = stateful_flow(FileNumbers(10), Total(), sink)
    flow.is_fresh = True
    flow.run()
    assert sink.texts[0] == "0:1"


def test_a_changed_flow_is_refused_with_the_difference() -> None:
    leave_a_checkpoint()
    flow = torvyn.Flow(checkpoint_s=0.01)
    flow.add("in", FileNumbers(10)).add("renamed", Total()).add("out", torvyn.sink(print))
    flow.connect("in", "renamed").connect("renamed", "out")
    with pytest.raises(FlowError, match=r"node `middle` \(Total\)") as refused:
        flow.run()
    assert refused.value.code == "durable.shape-changed"
    assert "--fresh" in (refused.value.hint or "")


def test_a_refused_flow_keeps_its_state() -> None:
    came = leave_a_checkpoint()
    test_error = torvyn.Flow(torvyn.source(["x"]), torvyn.sink(print), checkpoint_s=1)
    with pytest.raises(FlowError):
        test_error.run()
    sink = GatedSink(free=10**9)
    stateful_flow(FileNumbers(came + 5), Total(), sink).run()
    assert sink.texts[0] == f"{came}:{came + 1}"


def test_an_acknowledged_source_waits_for_the_checkpoint() -> None:
    source, sink = AckSource(str(n) for n in range(1000)), GatedSink(free=10**9)
    flow = stateful_flow(source, Total(), sink)
    flow.run()
    assert source.acknowledged == 1000
    assert sink.texts[-1] == "999:1000"


def test_two_processes_cannot_run_one_flow(state_dir: Path) -> None:
    sink = GatedSink()
    first = stateful_flow(FileNumbers(10**9), Total(), sink)
    first.start()
    assert sink.is_blocked.wait(20)
    with pytest.raises(torvyn.TorvynError) as refused:
        stateful_flow(FileNumbers(1), Total(), torvyn.sink(print)).run()
    assert refused.value.code == "durable.in-use"
    sink.gate.set()
    first.cancel()
    first.wait()


class UnsavedWindow(torvyn.Aggregator):
    """Collects everything until the end, and is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.has_three = threading.Event()

    def ingest(self, element: Element) -> None:
        self.texts.append(element.text)
        if len(self.texts) == 3:
            self.has_three.set()

    def flush(self) -> list[str]:
        return self.texts

    def held_elements(self) -> int:
        return len(self.texts)


def unsaved_flow(items: list[Any], window: UnsavedWindow, sink: torvyn.Sink) -> torvyn.Flow:
    flow = torvyn.Flow()
    flow.add("in", AckSource(items)).add("window", window).add("out", sink)
    return flow.connect("in", "window", carrier="disk").connect("window", "out")


def test_a_drain_keeps_what_an_aggregator_without_a_state_holds() -> None:
    window, sink = UnsavedWindow(), GatedSink(free=10**9)
    flow = unsaved_flow(["a", "b", "c", *[torvyn.PENDING] * 10**6], window, sink)
    flow.start()
    assert window.has_three.wait(20)
    flow.drain()
    flow.wait()
    assert sink.texts == []
    unsaved_flow([], UnsavedWindow(), sink).run()
    assert sink.texts == ["a", "b", "c"]


class LargeNumbers(FileNumbers):
    def pull(self) -> str | None:
        number = super().pull()
        return number and number.ljust(1000)


def stored_bytes(flow: torvyn.Flow) -> list[int]:
    return [edge.stored.bytes for edge in flow.statistics.edges if edge.stored]


def test_full_logs_of_segments_with_states_drain_when_the_sink_is_back() -> None:
    """Each of them has no room for what the one before it must commit."""
    sink, flow = GatedSink(), torvyn.Flow(checkpoint_s=0.01)
    flow.add("in", LargeNumbers(3000)).add("first", Total()).add("second", Total()).add("out", sink)
    flow.connect("in", "first")
    flow.connect("first", "second", carrier="disk", max_bytes=1 << 20)
    flow.connect("second", "out", carrier="disk", max_bytes=1 << 20)
    flow.start()
    wait_until(lambda: min(stored_bytes(flow)) > 600_000)
    sink.gate.set()
    assert flow.wait(20)
    assert [int(text.split(":")[0]) for text in sink.texts] == list(range(3000))


class FailingCheckpoints:
    """A disk that takes no checkpoints for a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_failing, self.has_failed = False, threading.Event()
        commit = DurableStore.commit

        def fail(store: DurableStore, transaction: Transaction) -> list[LostRange]:
            if transaction.checkpoint is not None and self.is_failing:
                self.has_failed.set()
                raise StoreUnavailable("io", "the disk fails")
            return commit(store, transaction)

        monkeypatch.setattr(DurableStore, "commit", fail)


def totals_behind_the_disk(items: list[Any], sink: torvyn.Sink) -> torvyn.Flow:
    flow = torvyn.Flow().add("in", AckSource(items)).add("total", Total()).add("out", sink)
    return flow.connect("in", "total", carrier="disk").connect("total", "out")


def test_a_drain_saves_what_a_checkpoint_that_failed_had_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, sink = FailingCheckpoints(monkeypatch), GatedSink(free=0)
    flow = totals_behind_the_disk([*map(str, range(50)), *[torvyn.PENDING] * 10**6], sink)
    flow.start()
    assert sink.is_blocked.wait(20)
    disk.is_failing = True
    sink.gate.set()
    assert disk.has_failed.wait(20)
    flow.drain()
    threading.Timer(0.5, setattr, (disk, "is_failing", False)).start()
    flow.wait(20)
    later = GatedSink(free=10**9)
    totals_behind_the_disk([], later).run()
    assert sink.texts + later.texts == [f"{number}:{number + 1}" for number in range(50)]
