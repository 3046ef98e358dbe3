"""What the store promises to one caller at a time."""

from __future__ import annotations

import contextlib
import errno
import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torvyn._durable.backend import Append, LogOptions, LostRange, Transaction
from torvyn._durable.disk.files import OpenTransaction, StoreFile
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.state_log import Checkpoint
from torvyn.errors import FlowError, StoreUnavailable

LOGS = {"log": LogOptions(4 << 20)}


def append(store: DurableStore, *counts: int) -> None:
    first, appends = store.next_sequence("log"), []
    for count in counts:
        appends.append(Append("log", first, count, b"%d+%d" % (first, count), first))
        first += count
    store.commit(Transaction(appends))


def test_a_page_ends_after_its_size_and_has_at_least_one_row(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 3, 3, 3)

        assert [row.first for row in store.read("log", -1, 1)] == [0]
        assert [row.first for row in store.read("log", 2, 4)] == [3, 6]
        assert [row.first for row in store.read("log", 4, 1)] == [3]
        assert store.read("log", 8, 1) == []


def test_a_row_stays_until_its_last_element_is_settled(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 3, 3)
        store.commit(Transaction(acknowledged={"log": 4}))

        assert [row.first for row in store.read("log", -1, 100)] == [3]
        assert store.statistics("log").elements == 1


def test_rows_settled_out_of_order_are_not_read_again(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 2, 2, 2)
        store.commit(Transaction(settled_ranges={"log": [(2, 3)]}))
        assert store.acknowledged("log") == -1
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        assert [row.first for row in store.read("log", -1, 100)] == [0, 4]
        store.commit(Transaction(acknowledged={"log": 1}))

        assert store.acknowledged("log") == 3
        assert store.lost("log") == []


def test_what_expires_behind_a_reader_is_lost_once_and_its_rows_go(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 3, 3, 3)
        settled = Transaction(settled_ranges={"log": [(3, 7)]}, expired={"log": [(4, 5), (7, 7)]})
        lost = store.commit(settled)
        assert [(each.first, each.last, each.reason) for each in lost] == [
            (4, 5, "expired"),
            (7, 7, "expired"),
        ]
        assert store.lost("log") == lost
        assert store.commit(settled) == []
        assert [row.first for row in store.read("log", -1, 100)] == [0, 6]
        found = store.statistics("log")
        assert (found.acknowledged, found.expired, found.expired_behind_reader) == (2, 3, 3)
        store.commit(Transaction(acknowledged={"log": 8}, expired={"log": [(0, 2), (8, 8)]}))
        assert (store.statistics("log").rows, store.statistics("log").expired) == (0, 7)


def test_what_expired_in_a_commit_that_failed_and_is_durable_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = StoreFile.transaction

    @contextlib.contextmanager
    def fail_afterwards(file: StoreFile, wal_bytes: int) -> Iterator[OpenTransaction]:
        with transaction(file, wal_bytes) as work:
            yield work
            work.mark = None
        monkeypatch.undo()
        file.close()
        raise file.failed(OSError(errno.EIO, "injected"))

    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 9)
        settled = Transaction(acknowledged={"log": 8}, expired={"log": [(2, 6)]})
        monkeypatch.setattr(StoreFile, "transaction", fail_afterwards)
        with pytest.raises(StoreUnavailable):
            store.commit(settled)
        assert store.commit(settled) == []
        found = store.statistics("log")
        assert (found.elements, found.expired, found.expired_behind_reader) == (0, 5, 5)


def test_a_commit_counts_although_the_file_is_closed_while_old_rows_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction, numbers = StoreFile.transaction, itertools.count()

    @contextlib.contextmanager
    def fail_the_second(file: StoreFile, wal_bytes: int) -> Iterator[OpenTransaction]:
        if next(numbers) == 1:
            file.close()
            raise file.failed(OSError(errno.EIO, "injected"))
        with transaction(file, wal_bytes) as work:
            yield work

    with DurableStore.open(tmp_path / "flow.db", {"log": LogOptions(1 << 20)}) as store:
        append(store, *[1] * 40)
        monkeypatch.setattr(StoreFile, "transaction", fail_the_second)
        store.commit(Transaction(acknowledged={"log": 39}))
        assert next(numbers) == 2
        append(store, 1)
        assert (store.statistics("log").elements, store.next_sequence("log")) == (1, 41)


def test_everything_of_a_transaction_is_durable_together(tmp_path: Path) -> None:
    parts = {("window", "#0"): b"\0state", ("join", "=key"): b""}
    state = Checkpoint.whole("segment", '{"nodes": []}', parts)
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 5)
        new = Append("log", 5, 1, b"six", 0)
        store.commit(Transaction([new], {"log": 4}, checkpoint=state))

    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        assert [row.body for row in store.read("log", -1, 100)] == [b"six"]
        saved = store.checkpoint("segment")
        assert saved is not None
        assert (saved.shape, saved.parts) == (state.shape, parts)
        assert store.segments() == ["segment"]
        assert store.checkpoint("other") is None


def test_a_transaction_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 5)
        wrong = Transaction([Append("log", 4, 1, b"", 0)], {"log": 3})
        with pytest.raises(ValueError, match="continues at 5, not at 4"):
            store.commit(wrong)

        assert store.acknowledged("log") == -1
        assert store.state.name == "ok"


def test_a_row_that_the_caller_cannot_decode_is_lost_with_its_count(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 2, 3, 2)

        lost = store.quarantine("log", 2, "its header is unknown")

        assert [(gap.first, gap.last, gap.count, gap.reason) for gap in lost] == [
            (2, 4, 3, "corrupt")
        ]
        assert [row.first for row in store.read("log", -1, 100)] == [0, 5]


def test_losses_are_kept_until_they_are_forgotten(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 2, 3, 2)
        store.quarantine("log", 2, "unknown")
        store.commit(Transaction(acknowledged={"log": 6}))
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        (lost,) = store.lost("log")
        assert lost == LostRange("log", 2, 4, "corrupt", lost.at_ns)
        store.forget_lost("log", 4)

        assert store.lost("log") == []
        assert store.statistics("log").corrupt == 3


def test_discard_empties_the_store_and_sequence_numbers_continue(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 4)
        store.commit(Transaction(checkpoint=Checkpoint("segment", "{}")))

        (lost,) = store.discard()

        assert (lost.count, lost.reason) == (4, "discarded")
        assert (store.next_sequence("log"), store.segments()) == (4, [])
        assert store.read("log", -1, 100) == []


def test_a_commit_that_was_reported_as_failed_is_undone_when_the_store_reconnects(
    tmp_path: Path,
) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 2)
        session, states = store._session, store._session.states
        append(store, 3)
        # As if the commit had failed after SQLite had written it, and the rollback too.
        mark = session._mark
        mark.path.write_bytes(mark.encode(session.epoch, states.values()))
        session.states = states
        session.file.close()

        append(store, 1, 4)

        assert [(row.first, row.count) for row in store.read("log", -1, 100)] == [
            (0, 2),
            (2, 1),
            (3, 4),
        ]
        assert (store.lost("log"), store.statistics("log").elements) == ([], 7)


def test_a_store_has_one_epoch_for_life(tmp_path: Path) -> None:
    epochs = []
    for name in ("a.db", "a.db", "b.db"):
        with DurableStore.open(tmp_path / name, LOGS) as store:
            epochs.append(store.epoch)

    assert epochs[0] == epochs[1] != epochs[2]


def test_a_store_of_a_log_that_the_flow_no_longer_has_keeps_it(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append(store, 4)
    with DurableStore.open(tmp_path / "flow.db", {"new": LogOptions(4 << 20)}) as store:
        assert {name: log.elements for name, log in store.logs().items()} == {"log": 4, "new": 0}


def test_a_writer_and_a_reader_work_on_two_threads(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [append(store, 2, 3) for _ in range(200)])
        got: list[int] = []
        while len(got) < 1_000:
            for row in store.read("log", store.acknowledged("log"), 100):
                assert row.body == b"%d+%d" % (row.first, row.count)
                got += range(row.first, row.last + 1)
                store.commit(Transaction(acknowledged={"log": row.last}))
        writing.result()

    assert got == list(range(1_000))


def test_a_second_process_is_told_who_has_the_store(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from torvyn._durable.backend import LogOptions\n"
        "from torvyn._durable.disk.store import DurableStore\n"
        "store = DurableStore.open(sys.argv[1], {'log': LogOptions(1 << 20)})\n"
        "print(os.getpid(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "flow.db")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        pid = process.stdout.readline().strip()
        with pytest.raises(FlowError, match=f"another process \\(pid {pid}\\)"):
            DurableStore.open(tmp_path / "flow.db", LOGS)
        process.communicate("")
    DurableStore.open(tmp_path / "flow.db", LOGS).close()
