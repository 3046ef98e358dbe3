"""Limits: bytes on disk, ages, a full disk, and what is dropped under each policy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from torvyn._durable.backend import MIN_LOG_BYTES, Append, LogOptions, LostRange, Transaction
from torvyn._durable.disk import log
from torvyn._durable.disk.store import DurableStore
from torvyn.errors import StoreUnavailable

MIB = 1 << 20
ROW = 50_000
YEAR_S = 365 * 24 * 3600.0


class Times:
    """A wall clock and the time since boot, moved by hand."""

    def __init__(self) -> None:
        self.now_s, self.uptime_s = 1_800_000_000.0, 5_000.0

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds
        self.uptime_s += seconds

    def open(self, path: Path, **options: object) -> DurableStore:
        logs = {"log": LogOptions(**{"max_bytes": MIB, **options})}  # type: ignore[arg-type]
        return DurableStore.open(path, logs, now=lambda: self.now_s, uptime=lambda: self.uptime_s)


@pytest.fixture
def times() -> Times:
    return Times()


def fill(store: DurableStore, rows: int, count: int = 10, at_s: float = 0) -> list[LostRange]:
    lost = []
    for _ in range(rows):
        first = store.next_sequence("log")
        new = Append("log", first, count, bytes([first % 251]) * ROW, int(at_s * 1e9))
        lost += store.commit(Transaction([new]))
    return lost


def test_the_size_on_disk_never_exceeds_the_limit(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", backpressure="drop-oldest", max_bytes=4 * MIB) as store:
        for _ in range(200):
            fill(store, 1)
            assert store.disk_bytes() <= 4 * MIB
        # Most of the limit is used for data.
        assert store.statistics("log").bytes > 2 * MIB


def test_drop_oldest_reports_ranges_with_exact_counts(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", backpressure="drop-oldest") as store:
        lost = fill(store, 40)

        kept = store.read("log", -1, 10 * MIB)
        assert sum(gap.count for gap in lost) == kept[0].first
        assert [(gap.first, gap.last, gap.reason) for gap in store.lost("log")] == [
            (0, kept[0].first - 1, "dropped")
        ]
        assert store.statistics("log").dropped == kept[0].first


def test_drop_newest_keeps_what_is_there(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", backpressure="drop-newest") as store:
        fill(store, 40)

        kept = store.read("log", -1, 10 * MIB)
        assert kept[0].first == 0
        assert store.next_sequence("log") == 400
        assert [(gap.first, gap.last) for gap in store.lost("log")] == [(kept[-1].last + 1, 399)]


def test_rows_in_the_hands_of_a_reader_are_not_dropped(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", backpressure="drop-oldest") as store:
        fill(store, 5)
        page = store.read("log", -1, 2 * ROW)

        lost = fill(store, 40)

        assert lost[0].first == page[-1].last + 1
        assert store.read("log", -1, 1)[0] == page[0]


@pytest.mark.parametrize("policy", ["block", "error"])
def test_a_full_log_refuses_until_something_is_acknowledged(
    tmp_path: Path, times: Times, policy: str
) -> None:
    with times.open(tmp_path / "flow.db", backpressure=policy) as store:
        with pytest.raises(StoreUnavailable) as caught:
            fill(store, 40)
        assert caught.value.reason == "limit"
        assert not store.has_room("log", ROW)

        store.commit(Transaction(acknowledged={"log": store.next_sequence("log") - 1}))

        assert store.has_room("log", ROW)
        assert fill(store, 1) == []


def test_space_is_given_back_after_a_drain(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", max_bytes=16 * MIB) as store:
        fill(store, 200)
        assert store.disk_bytes() > 10 * MIB
        times.pass_by(60)

        store.commit(Transaction(acknowledged={"log": store.next_sequence("log") - 1}))

        # What is left is the reserve for a full disk.
        assert store.disk_bytes() < 2.2 * MIB


def test_the_limit_holds_when_many_small_rows_are_settled_at_once(
    tmp_path: Path, times: Times
) -> None:
    with times.open(tmp_path / "flow.db") as store:
        while store.has_room("log", 5_000):
            first = store.next_sequence("log")
            rows = [Append("log", first + i, 1, b"x" * 100, 0) for i in range(20)]
            store.commit(Transaction(rows))
        assert store.statistics("log").rows > 2_000

        store.commit(Transaction(acknowledged={"log": store.next_sequence("log") - 1}))

        assert store.disk_bytes() <= MIB
        assert store.statistics("log").rows == 0


def test_a_log_keeps_its_share_when_another_is_full(tmp_path: Path) -> None:
    logs = {name: LogOptions(2 * MIB, backpressure="drop-newest") for name in ("log", "other")}
    with DurableStore.open(tmp_path / "flow.db", logs) as store:
        fill(store, 100)
        size = store.statistics("log").bytes

        lost = store.commit(Transaction([Append("other", 0, 1, bytes(ROW), 0)]))

        assert (lost, size > MIB) == ([], True)
        assert store.disk_bytes() <= 4 * MIB


def test_rows_expire_by_age(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", max_age_s=60.0) as store:
        fill(store, 3, at_s=times.now_s)
        times.pass_by(50)
        fill(store, 2, at_s=times.now_s)
        times.pass_by(20)

        lost = store.tidy()

        assert [(gap.first, gap.last, gap.reason) for gap in lost] == [
            (0, 9, "expired"),
            (10, 19, "expired"),
            (20, 29, "expired"),
        ]
        assert store.statistics("log").elements == 20


@pytest.mark.parametrize("step_s", [YEAR_S, -YEAR_S])
def test_a_step_of_the_clock_expires_nothing(tmp_path: Path, times: Times, step_s: float) -> None:
    with times.open(tmp_path / "flow.db", max_age_s=60.0) as store:
        fill(store, 3, at_s=times.now_s)
        times.now_s += step_s
        times.pass_by(30)

        assert store.tidy() == []
        assert store.clock_steps()[0].step_s == pytest.approx(step_s, abs=2)


def test_a_step_of_the_clock_before_a_restart_expires_nothing(tmp_path: Path, times: Times) -> None:
    with times.open(tmp_path / "flow.db", max_age_s=60.0) as store:
        fill(store, 3, at_s=times.now_s)
    times.now_s += YEAR_S

    with times.open(tmp_path / "flow.db", max_age_s=60.0) as store:
        assert store.tidy() == []
        times.pass_by(120)
        assert len(store.tidy()) == 3


def test_a_limit_that_leaves_no_room_for_data_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1048576"):
        LogOptions(MIN_LOG_BYTES - 1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_drained_and_gives_space_back(small_disk: Path, times: Times) -> None:
    with times.open(small_disk / "flow.db", max_bytes=16 * MIB) as store:
        with pytest.raises(StoreUnavailable) as caught:
            fill(store, 1_000)
        assert (caught.value.reason, store.state.name) == ("full", "degraded")
        assert not store.has_room("log", ROW)

        # Page after page: each acknowledgement writes, on a disk without space.
        while rows := store.read("log", store.acknowledged("log"), 2 * ROW):
            store.commit(Transaction(acknowledged={"log": rows[-1].last}))

        times.pass_by(60)
        store.tidy()
        assert (store.lost("log"), store.state.name) == ([], "ok")
        assert fill(store, 10) == []


def test_a_disk_that_others_fill_loses_nothing(small_disk: Path, times: Times) -> None:
    path = small_disk / "flow.db"
    with times.open(path) as store:
        fill(store, 5)
        with (small_disk / "other").open("wb") as other, pytest.raises(OSError, match="space"):
            other.write(bytes(4 * MIB))
        with pytest.raises(StoreUnavailable):
            fill(store, 100)
        appended = store.next_sequence("log")

    with times.open(path) as store:
        assert store.statistics("log").elements == appended
        (small_disk / "other").unlink()
        assert fill(store, 1) == []
        assert store.state.name == "ok"


def test_the_account_of_losses_that_nobody_asks_for_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, count = 100, 150
    monkeypatch.setattr(log, "MOST_LOST_RANGES", most)
    with DurableStore.open(tmp_path / "flow.db", {"log": LogOptions(1 << 20)}) as store:
        for first in range(0, 2 * count, 2):
            store.commit(Transaction([Append("log", first, 1, b"x", 0)]))
            store.quarantine("log", first, "for the test")
            store.commit(Transaction([Append("log", first + 1, 1, b"x", 0)]))
            store.commit(Transaction(acknowledged={"log": first + 1}))
        assert len(store.lost("log")) <= most
        assert store.lost("log")[-1].first == 2 * count - 2
        assert store.statistics("log").corrupt == count
