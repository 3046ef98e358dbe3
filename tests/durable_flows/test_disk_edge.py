"""An edge with `carrier = "disk"`: what was accepted is delivered, in this run or in the next."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from durable_parts import (
    AckSource,
    GatedSink,
    SlowSink,
    check_account,
    disk_flow,
    wait_until,
)
from scale import sample

import torvyn
from failing_once import UNEXPECTED, fail_once
from torvyn import Element, Output
from torvyn._durable.backend import LostRange, Transaction
from torvyn._durable.committer import IDLE_S, CarrierThread
from torvyn._durable.disk.clock import AgeClock
from torvyn._durable.disk.store import DurableStore
from torvyn._flow.health import HealthCheck, HealthState
from torvyn.errors import StoreUnavailable


def numbers(count: int, first: int = 0) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def test_elements_arrive_in_order_and_are_acknowledged() -> None:
    source, sink = AckSource(numbers(5000)), GatedSink(free=10**9)
    flow = disk_flow(source, sink)
    flow.run()
    assert sink.texts == numbers(5000)
    assert source.acknowledged == 5000
    check_account(flow)


def test_what_was_not_delivered_is_delivered_in_the_next_run() -> None:
    source, sink = AckSource(numbers(300)), GatedSink(free=100)
    flow = disk_flow(source, sink)
    flow.start()
    assert sink.is_blocked.wait(20)
    wait_until(lambda: source.acknowledged == 300)
    flow.cancel()
    sink.gate.set()
    flow.wait()
    later = GatedSink(free=10**9)
    disk_flow(AckSource([]), later).run()
    assert sink.texts[:100] == numbers(100)
    assert [*sink.texts[: 300 - len(later.texts)], *later.texts] == numbers(300)


def test_the_source_is_acknowledged_although_the_sink_takes_nothing() -> None:
    source, sink = AckSource(numbers(1000)), GatedSink()
    flow = disk_flow(source, sink)
    flow.start()
    wait_until(lambda: source.acknowledged == 1000)
    assert not sink.texts
    sink.gate.set()
    flow.wait()
    assert sink.texts == numbers(1000)


def test_attributes_types_and_bytes_survive() -> None:
    items = [
        Output("text", attributes={"choice": 1, "nested": {"a": [1, None, "ä"]}}),
        Output(b"\x00\xff" * 50, content_type="application/vnd.example"),
        b"plain bytes",
        "",
        "ü" * 1000,
    ]
    seen: list[tuple[bytes, str, dict[str, object]]] = []

    def push(element: Element) -> None:
        seen.append((bytes(element.data), element.content_type, dict(element.attributes)))

    disk_flow(AckSource(items), push).run()
    assert seen == [
        (b"text", "text/plain; charset=utf-8", {"choice": 1, "nested": {"a": [1, None, "ä"]}}),
        (b"\x00\xff" * 50, "application/vnd.example", {}),
        (b"plain bytes", "application/octet-stream", {}),
        (b"", "text/plain; charset=utf-8", {}),
        ("ü".encode() * 1000, "text/plain; charset=utf-8", {}),
    ]


def test_sequence_numbers_continue_in_the_next_run() -> None:
    seen: list[int] = []
    for _ in range(3):
        disk_flow(AckSource(numbers(10)), lambda e: seen.append(e.sequence)).run()
    assert seen == list(range(30))


def test_an_element_that_does_not_fit_is_counted() -> None:
    source = AckSource(["small", "x" * 2_000_000, "after"])
    sink = GatedSink(free=10**9)
    flow = disk_flow(source, sink, max_bytes=2 * 1024 * 1024, queue_bytes=4 * 1024 * 1024)
    flow.run()
    assert sink.texts == ["small", "after"]
    assert (flow.statistics.dropped, source.acknowledged) == (1, 3)
    check_account(flow)


@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest"])
def test_a_full_log_drops_and_counts_exactly(policy: str) -> None:
    items = [f"{number:06}" + "x" * 1000 for number in range(6000)]
    source, sink = AckSource(items), GatedSink()
    flow = disk_flow(source, sink, max_bytes=3 * 1024 * 1024, backpressure=policy)
    flow.start()
    wait_until(lambda: source.acknowledged == 6000)
    sink.gate.set()
    flow.wait()
    check_account(flow)
    edge = flow.statistics.edges[0]
    assert edge.dropped > 0
    assert len(sink.texts) == edge.taken == 6000 - edge.dropped
    assert sink.texts == sorted(sink.texts)


def test_a_full_log_blocks_the_source(state_dir: Path) -> None:
    items = (f"{number:06}" + "x" * 1000 for number in range(6000))
    source, sink = AckSource(items), GatedSink()
    flow = disk_flow(source, sink, max_bytes=3 * 1024 * 1024)
    flow.start()
    assert sink.is_blocked.wait(20)
    wait_until(lambda: source.sent > 500)
    time.sleep(0.3)
    assert source.sent < 6000
    sink.gate.set()
    flow.wait()
    assert len(sink.texts) == source.acknowledged == 6000
    assert sum(file.stat().st_size for file in state_dir.rglob("*")) <= 3 * 1024 * 1024
    check_account(flow)


def test_a_full_log_with_the_policy_error_fails_the_flow() -> None:
    items = (f"{number:06}" + "x" * 1000 for number in range(20000))
    source = AckSource(items)
    sink = SlowSink(free=10**9)
    flow = disk_flow(source, sink, max_bytes=3 * 1024 * 1024, backpressure="error")
    with pytest.raises(torvyn.TorvynError, match="is full"):
        flow.run()
    assert source.acknowledged < source.sent
    check_account(flow)


def test_drain_rate_limits_what_is_read_back() -> None:
    source, sink = AckSource(numbers(400)), GatedSink()
    first = disk_flow(source, sink)
    first.start()
    wait_until(lambda: source.acknowledged == 400)
    first.cancel()
    sink.gate.set()
    first.wait()
    times: list[float] = []
    disk_flow(AckSource([]), lambda e: times.append(time.monotonic()), drain_rate=800).run()
    assert len(times) + len(sink.texts) >= 400
    rate = (len(times) - 1) / (times[-1] - times[0])
    assert rate <= 800 * 1.05


def test_live_first_delivers_new_elements_before_the_backlog() -> None:
    source, sink = AckSource(numbers(200)), GatedSink()
    first = disk_flow(source, sink, order="live-first")
    first.start()
    wait_until(lambda: source.acknowledged == 200)
    first.cancel()
    sink.gate.set()
    first.wait()
    seen: list[tuple[int, bool]] = []

    def push(element: Element) -> None:
        seen.append((int(element.text), element.attributes.get("historical", False)))
        time.sleep(0.001)

    flow = disk_flow(AckSource(numbers(200, 1000)), push, order="live-first", drain_rate=100)
    flow.run()
    live = [number for number, historical in seen if not historical]
    backlog = [number for number, historical in seen if historical]
    assert live == [*range(1000, 1200)]
    assert backlog == sorted(backlog)
    assert set(backlog) <= set(range(200))
    assert len(backlog) + len(sink.texts) >= 200
    # The new elements did not wait for the old ones.
    assert seen.index((1199, False)) < len(seen) - 1
    check_account(flow)
    later: list[str] = []
    disk_flow(AckSource([]), lambda e: later.append(e.text), order="live-first").run()
    assert later == []


def test_what_comes_after_the_clock_was_set_is_stored_with_the_new_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    day_ns, is_set, ages_ns = 86_400 * 10**9, threading.Event(), list[int]()
    commit, now_ns = DurableStore.commit, AgeClock.now_ns

    def watched_commit(store: DurableStore, transaction: Transaction) -> list[LostRange]:
        ages_ns.extend(time.time_ns() - append.newest_ns for append in transaction.appends)
        return commit(store, transaction)

    def items() -> Iterator[str]:
        yield "before"
        is_set.set()
        time.sleep(3 * IDLE_S)
        yield "after"

    monkeypatch.setattr(DurableStore, "commit", watched_commit)
    monkeypatch.setattr(AgeClock, "now_ns", lambda one: now_ns(one) + day_ns * is_set.is_set())
    sink = GatedSink(free=10**9)
    disk_flow(AckSource(items()), sink).run()
    assert sink.texts == ["before", "after"]
    assert [round(age_ns / day_ns) for age_ns in ages_ns] == [0, -1]


def test_a_failing_disk_degrades_the_flow_and_acknowledges_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, sink = AckSource(numbers(500)), GatedSink(free=10**9)
    commit, failures, told = DurableStore.commit, [], []

    def fail_first(self: DurableStore, transaction: object) -> object:
        if len(failures) < 5:
            failures.append(source.acknowledged)
            raise StoreUnavailable("full", "no space left on the disk")
        told.append(source.acknowledged)
        return commit(self, transaction)  # type: ignore[arg-type]

    monkeypatch.setattr(DurableStore, "commit", fail_first)
    disk_flow(source, sink).run()
    assert failures == [0] * 5
    assert sink.texts == numbers(500)
    assert source.acknowledged == 500


def test_the_backlog_is_delivered_while_the_disk_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More than waits in memory, so that most of it is read back.
    items = [f"{number:05}" + "x" * 1000 for number in range(4000)]
    source, sink = AckSource(items), GatedSink()
    flow = disk_flow(source, sink)
    flow.start()
    wait_until(lambda: source.acknowledged == 4000)

    def fail(self: DurableStore, transaction: object) -> object:
        raise StoreUnavailable("full", "no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(DurableStore, "commit", fail)
        sink.gate.set()
        wait_until(lambda: len(sink.texts) == 4000)
    flow.wait()
    assert sink.texts == items
    check_account(flow)


@pytest.mark.parametrize("seed", range(sample(6, full=25)))
def test_every_ending_leaves_the_rest_for_the_next_run(seed: int) -> None:
    rng = random.Random(seed)
    total, delivered = 400, []
    settled = 0
    for _ in range(30):
        source = AckSource(numbers(total - settled, settled))
        sink = GatedSink(free=rng.randrange(1, 120))
        order = rng.choice(["oldest-first", "live-first"])
        flow = disk_flow(source, sink, order=order, queue_depth=rng.choice([1, 4, 64]))
        flow.start()
        if not sink.is_blocked.wait(rng.uniform(0.0, 0.05)):
            time.sleep(rng.uniform(0.0, 0.02))
        ending = rng.choice(["cancel", "drain"])
        flow.cancel() if ending == "cancel" else flow.drain()
        sink.gate.set()
        flow.wait()
        check_account(flow)
        delivered += [int(text) for text in sink.texts]
        settled += source.acknowledged
        if settled == total and flow.statistics.edges[0].unread == 0:
            break
    last = GatedSink(free=10**9)
    disk_flow(AckSource(numbers(total - settled, settled)), last).run()
    delivered += [int(text) for text in last.texts]
    assert set(delivered) == set(range(total))


@pytest.fixture
def disk(state_dir: Path) -> Iterator[Callable[[str], None]]:
    """A small file system for the stored elements; remounts it with other options."""
    state_dir.mkdir()

    def mount(options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(state_dir)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if os.geteuid() or not mount("size=8m"):
        pytest.skip("only root can mount a file system")
    yield lambda options: mount(f"remount,{options}") or pytest.fail("it cannot be remounted")
    subprocess.run(["umount", "-l", str(state_dir)], check=True)


@pytest.fixture(params=["full", "read-only"])
def repair(
    request: pytest.FixtureRequest, disk: Callable[[str], None], state_dir: Path
) -> Callable[[], None]:
    """The disk takes nothing, before a flow has ever run on it, until it is repaired."""
    if request.param == "read-only":
        disk("ro")
        return lambda: disk("rw")
    with (state_dir / "other").open("wb") as other, pytest.raises(OSError, match="space"):
        other.write(bytes(9 * 1024 * 1024))
    return (state_dir / "other").unlink


def waits_to_start(caplog: pytest.LogCaptureFixture) -> bool:
    return "waits to start" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
def test_a_first_start_waits_for_a_disk_that_takes_nothing(
    repair: Callable[[], None], caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    source, sink = AckSource(numbers(300)), GatedSink(free=10**9)
    flow = disk_flow(source, sink)
    run = (lambda: asyncio.run(flow.run_async())) if is_async else flow.run
    running = threading.Thread(target=run)
    running.start()
    wait_until(lambda: waits_to_start(caplog))
    assert source.sent == 0

    repair()
    running.join(20)

    assert (flow.state, sink.texts, source.acknowledged) == ("completed", numbers(300), 300)
    check_account(flow)


def test_a_start_that_waits_for_its_disk_can_be_cancelled(
    repair: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    flow = disk_flow(AckSource(numbers(3)), GatedSink())
    with ThreadPoolExecutor() as threads:
        run = threads.submit(flow.run)
        wait_until(lambda: waits_to_start(caplog))

        flow.cancel()

        assert isinstance(run.exception(20), StoreUnavailable)
    assert flow.state == "cancelled"


def test_a_start_waits_for_its_disk_no_longer_than_the_deadline(repair: Callable[[], None]) -> None:
    plan = disk_flow(AckSource(numbers(3)), GatedSink()).plan
    with pytest.raises(StoreUnavailable) as caught:
        torvyn.Flow.from_plan(replace(plan, deadline_s=0.1)).run()
    assert "state_dir" in (caught.value.hint or "")


def test_a_folder_that_can_never_work_ends_the_start(state_dir: Path) -> None:
    state_dir.write_text("a file")

    with pytest.raises(StoreUnavailable) as caught:
        disk_flow(AckSource(numbers(3)), GatedSink()).run()
    assert caught.value.code == "durable.disk-failed"


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_of_the_carrier_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    has_failed = fail_once(monkeypatch, CarrierThread, "round", error)
    source, sink = AckSource(numbers(500)), GatedSink(free=10**9)
    flow = disk_flow(source, sink)
    flow.run()

    assert has_failed.is_set()
    assert sink.texts == numbers(500)
    assert source.acknowledged == 500
    check_account(flow)


def test_a_carrier_that_fails_for_ever_stalls_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: CarrierThread) -> None:
        raise RuntimeError("injected")

    monkeypatch.setattr(CarrierThread, "round", fail)
    flow, now_s = disk_flow(AckSource(numbers(10**6)), GatedSink(free=10**9)), [0.0]
    flow.start()
    check = HealthCheck(60.0, clock=lambda: now_s[0])

    def is_stalled() -> bool:
        now_s[0] += 60.0
        return check.check(flow.statistics).state is HealthState.STALLED

    wait_until(is_stalled)
    flow.cancel()
    flow.wait()
