"""What was read ahead of the sink of a disk edge is dropped and acknowledged like the rest."""

from __future__ import annotations

import errno
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from durable_parts import AckSource, GatedSink, check_account, disk_flow, wait_until
from scale import sample

from torvyn import Output
from torvyn.durable.disk.high_water import HighWaterFile
from torvyn.reactor.carriers import outage
from torvyn.reactor.carriers.wired_plan import QUEUE_SHARE

ORDERS = ("oldest-first", "live-first")
MIB = 1024 * 1024


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
