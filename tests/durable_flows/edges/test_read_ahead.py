"""What was read ahead of the sink of a disk edge is dropped and acknowledged like the rest."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from durable_parts import AckSource, GatedSink, check_account, disk_flow, wait_until
from scale import sample

import torvyn
from torvyn import PENDING, Element, Output
from torvyn._durable import outage
from torvyn._durable.backend import LogOptions
from torvyn._durable.disk.files import HighWaterFile, OpenTransaction, StoreFile
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.segments import QUEUE_SHARE

ORDERS = ("oldest-first", "live-first")
MIB = 1024 * 1024
AGE_S = 0.3
LOG = "in:output->out"


def numbered(count: int, size: int = 500) -> list[str]:
    return [f"{number:06}" + "x" * size for number in range(count)]


def numbers(sink: GatedSink) -> list[int]:
    return [int(text[:6]) for text in sink.texts]


@pytest.mark.promise("edge.stored-limits")
@pytest.mark.parametrize("size", [20, 500, 20_000])
@pytest.mark.parametrize("order", ORDERS)
def test_drop_oldest_keeps_the_newest_on_the_smallest_edge(order: str, size: int) -> None:
    count = 4 * MIB // (size + 40)
    source, sink = AckSource(numbered(count, size)), GatedSink()
    options = {"max_bytes": MIB, "backpressure": "drop-oldest", "order": order}
    flow = disk_flow(source, sink, queue_depth=4096, queue_bytes=64 * MIB, **options)
    flow.start()
    wait_until(lambda: source.acknowledged == count)
    sink.gate.set()
    flow.wait()
    check_account(flow)
    delivered = numbers(sink)
    dropped = sorted(set(range(count)) - set(delivered))
    assert len(delivered) == flow.statistics.edges[0].taken == count - len(dropped)
    # What the sink was getting when the disk became full, and then the newest.
    assert dropped == list(range(dropped[0], dropped[-1] + 1))
    assert dropped[0] * size <= 4 * MIB // QUEUE_SHARE
    assert (count - 1 - dropped[-1]) * size > MIB // 8


@pytest.mark.promise("edge.stored-limits")
@pytest.mark.parametrize("mode", ["thread", "inline"])
@pytest.mark.parametrize("order", ORDERS)
def test_nothing_older_than_max_age_is_handed_over(order: str, mode: str) -> None:
    age_s, count = 0.3, 2000

    class Sink(GatedSink):
        run = mode

    source, sink = AckSource(map(str, range(count))), Sink(free=10)
    flow = disk_flow(source, sink, max_age_s=age_s, order=order)
    flow.start()
    assert sink.is_blocked.wait(20)
    in_hand, sent = len(sink.texts), source.sent
    # Everything that waits becomes too old.
    threading.Event().wait(2 * age_s)
    sink.gate.set()
    flow.wait()
    check_account(flow)
    assert len(sink.texts) == count - flow.statistics.edges[0].dropped
    assert not {*map(str, range(sent))} & {*sink.texts[in_hand + 1 :]}


class PausingSource(AckSource):
    """Goes on after its items until it is released."""

    def __init__(self, items: Iterable[str]) -> None:
        super().__init__(items)
        self.is_over = False

    def pull(self) -> Any:
        item = super().pull()
        return PENDING.after(0.01) if item is None and not self.is_over else item


class CountingSink(GatedSink):
    """Its position is saved by checkpoints, not by acknowledgements."""

    def snapshot(self) -> int:
        return len(self.texts)

    def restore(self, state: int) -> None:
        """Nothing depends on it."""


def losses(state_dir: Path) -> dict[int, str]:
    """The numbers of lost elements in a store that no process has, with the reasons."""
    (path,) = state_dir.glob("*/flow.db")
    with DurableStore.open(path, {LOG: LogOptions(256 * MIB)}) as store:
        found = store.lost(LOG)
        numbers = {n: each.reason for each in found for n in range(each.first, each.last + 1)}
        assert store.statistics(LOG).expired == len(numbers) == sum(each.count for each in found)
        return numbers


@pytest.fixture(params=[GatedSink, CountingSink])
def sink_class(request: pytest.FixtureRequest) -> type[GatedSink]:
    """Settled by acknowledgements, and by checkpoints."""
    return request.param  # type: ignore[no-any-return]


def expire_in_queue(flow: torvyn.Flow, sink: GatedSink) -> int:
    """Everything behind the element that the sink has in its hands becomes too old. Returns its
    place."""
    flow.start()
    assert sink.is_blocked.wait(20)
    threading.Event().wait(2 * AGE_S)
    return len(sink.texts)


@pytest.mark.promise("edge.stored-limits")
@pytest.mark.parametrize("order", ORDERS)
def test_what_becomes_too_old_in_the_queue_is_expired_in_the_store(
    order: str, sink_class: type[GatedSink], state_dir: Path, tmp_path: Path
) -> None:
    source, sink = PausingSource(map(str, range(2000))), sink_class(free=10)
    flow = disk_flow(source, sink, max_age_s=AGE_S, order=order)
    expire_in_queue(flow, sink)
    sink.gate.set()
    wait_until(lambda: source.acknowledged == 2000)
    wait_until(lambda: flow.statistics.edges[0].stored.elements == 0)
    # What a kill would leave at this moment.
    shutil.copytree(state_dir, tmp_path / "killed")
    source.is_over = True
    flow.wait()
    check_account(flow)
    (edge,) = flow.statistics.edges
    assert edge.stored.expired_behind_reader > 0
    assert edge.dropped == edge.stored.expired == 2000 - edge.taken
    lost = dict.fromkeys({*range(2000)} - {*map(int, sink.texts)}, "expired")
    assert losses(tmp_path / "killed") == losses(state_dir) == lost


@pytest.mark.parametrize("order", ORDERS)
def test_what_became_too_old_before_a_kill_counts_once_in_the_next_run(
    order: str,
    sink_class: type[GatedSink],
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, killed = sink_class(free=10), tmp_path / "killed"
    flow = disk_flow(AckSource(map(str, range(2000))), first, max_age_s=AGE_S, order=order)
    in_hand = expire_in_queue(flow, first)
    shutil.copytree(state_dir, killed)
    first.gate.set()
    flow.wait()
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(killed))
    later = sink_class(free=10**9)
    flow = disk_flow(AckSource([]), later, max_age_s=AGE_S, order=order)
    flow.run()
    check_account(flow)
    (edge,) = flow.statistics.edges
    assert edge.entered == edge.restored == len(later.texts) + edge.dropped
    delivered = {*map(int, [*first.texts[: in_hand + 1], *later.texts])}
    assert {*losses(killed)} | delivered == {*range(edge.stored.appended)}


@pytest.mark.parametrize("seed", range(sample(4, full=40)))
def test_what_becomes_too_old_while_commits_fail_is_expired_once(
    seed: int, sink_class: type[GatedSink], state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, transaction = random.Random(seed), StoreFile.transaction

    @contextlib.contextmanager
    def fail_often(file: StoreFile, wal_bytes: int) -> Iterator[OpenTransaction]:
        with transaction(file, wal_bytes) as work:
            yield work
            if is_failing := source.sent < 1500 and dice.random() < 0.3:
                work.mark = None
        if is_failing:
            # It is durable nevertheless, and the mark beside it is not.
            file.close()
            raise file.failed(OSError(errno.EIO, "injected"))

    class Sink(sink_class):  # type: ignore[misc, valid-type]
        def push(self, element: Element) -> None:
            threading.Event().wait(dice.choice([0, 0, 0.002]))
            super().push(element)

    monkeypatch.setattr(outage, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(outage, "LONGEST_RETRY_S", 0.001)
    monkeypatch.setattr(StoreFile, "transaction", fail_often)

    def items() -> Iterator[str]:
        for number in range(1500):
            threading.Event().wait(0.002 * (number % 10 == 0))
            yield str(number)

    source, sink = AckSource(items()), Sink(free=10**9)
    flow = disk_flow(source, sink, max_age_s=0.02, order=dice.choice(ORDERS), queue_depth=50)
    flow.run()
    check_account(flow)
    (edge,) = flow.statistics.edges
    assert edge.dropped == edge.stored.expired == 1500 - len(sink.texts)
    assert losses(state_dir).keys() == {*range(1500)} - {*map(int, sink.texts)}


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_settled_is_durable_element_by_element(
    order: str, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [str(number) for number in range(3000)]
    source, sink = AckSource(items), GatedSink(free=1234)
    flow = disk_flow(source, sink, order=order)
    flow.start()
    assert sink.is_blocked.wait(20)
    wait_until(lambda: source.acknowledged == 3000)
    wait_until(lambda: flow.statistics.edges[0].stored.elements == 3000 - 1234)

    # What a kill would leave at this moment.
    shutil.copytree(state_dir, tmp_path / "killed")
    flow.cancel()
    sink.gate.set()
    flow.wait()
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path / "killed"))
    later = GatedSink(free=10**9)
    disk_flow(AckSource([]), later, order=order).run()

    assert later.texts == items[1234:]


@pytest.mark.parametrize("seed", range(sample(4, full=60)))
def test_rows_that_a_failed_commit_took_back_are_delivered(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, encode = random.Random(seed), HighWaterFile.encode
    is_failing = [True]

    def fail_often(self: HighWaterFile, *args: object) -> bytes:
        if is_failing[0] and dice.random() < 0.3:
            raise OSError(errno.EIO, "injected")
        return encode(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(outage, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(outage, "LONGEST_RETRY_S", 0.001)
    order, size = dice.choice(ORDERS), dice.choice([300, 900])
    count = 3 * MIB // size

    def items() -> Iterator[str]:
        monkeypatch.setattr(HighWaterFile, "encode", fail_often)
        yield from numbered(count, size)
        is_failing[0] = False
        sink.gate.set()

    source, sink = AckSource(items()), GatedSink(free=dice.choice([0, 50, 10**9]))
    flow = disk_flow(source, sink, max_bytes=MIB, backpressure="drop-oldest", order=order)
    flow.run()
    check_account(flow)
    delivered = numbers(sink)
    assert len(delivered) == len(set(delivered)) == count - flow.statistics.edges[0].dropped
    if order == "oldest-first":
        assert delivered == sorted(delivered)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_read_ahead_is_small_although_attributes_are_large(order: str) -> None:
    items = [Output("x", attributes={"number": n, "note": "y" * 5000}) for n in range(4000)]
    source, sink = AckSource(items), GatedSink()
    flow = disk_flow(source, sink, order=order)
    flow.start()
    wait_until(lambda: source.acknowledged == 4000)
    (edge,) = flow._execution.durable._edges  # type: ignore[attr-defined]
    assert edge.log.waiting[1] <= 3 * MIB
    assert edge.log.waiting[0] <= 3 * MIB // 5000
    sink.gate.set()
    flow.wait()
    assert [element.attributes["number"] for element in sink.elements] == list(range(4000))
