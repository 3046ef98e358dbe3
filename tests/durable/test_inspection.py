"""Looking into a store finds what waits and what is damaged, and changes nothing."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import pytest
from workload import LOG, OPTIONS, transactions

from torvyn._durable.disk.salvage import inspect_store
from torvyn._durable.disk.store import DurableStore

FILES = ("flow.db", "flow.db-wal", "flow.db.mark")


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Path, int]:
    """The files that a kill leaves, and how many elements wait in them."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with DurableStore.open(tmp_path / "flow.db", OPTIONS) as store:
        for transaction in islice(transactions(store, 3), 60):
            store.commit(transaction)
        for name in FILES:
            shutil.copy(tmp_path / name, copy / name)
        return copy / "flow.db", store.statistics(LOG).elements


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name in FILES}


def test_an_intact_store_is_reported_and_not_changed(killed: tuple[Path, int]) -> None:
    path, elements = killed
    before = contents(path.parent)

    report = inspect_store(path)

    assert (report.state, report.problems) == ("intact", [])
    assert (report.elements, report.segments) == ({LOG: elements}, ["segment"])
    assert contents(path.parent) == before
    assert sorted(p.name for p in path.parent.iterdir()) == sorted((*FILES, "flow.db.lock"))


def test_a_damaged_row_is_named(killed: tuple[Path, int]) -> None:
    path, _ = killed
    DurableStore.open(path, OPTIONS).close()
    with DurableStore.open(path, OPTIONS) as store:
        row = max(store.read(LOG, -1, 1 << 20), key=lambda row: len(row.body))
    data = path.read_bytes()
    path.write_bytes(data.replace(row.body[2000:2100], bytes(100)))

    report = inspect_store(path)

    assert report.state == "damaged"
    assert report.problems == [
        f"log `{LOG}`: the elements {row.first} to {row.last} are damaged or missing"
    ]


def test_commits_that_a_damaged_wal_has_lost_are_named(killed: tuple[Path, int]) -> None:
    path, _ = killed
    wal = path.with_name("flow.db-wal")
    data = bytearray(wal.read_bytes())
    data[100] ^= 1  # in the first frame
    wal.write_bytes(data)

    assert inspect_store(path).state == "damaged"


def test_garbage_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "flow.db").write_bytes(b"garbage" * 1000)

    assert inspect_store(tmp_path / "flow.db").state == "unreadable"


def test_a_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    assert inspect_store(tmp_path / "flow.db").state == "absent"
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_a_process_has_is_left_alone(tmp_path: Path) -> None:
    with DurableStore.open(tmp_path / "flow.db", OPTIONS):
        assert inspect_store(tmp_path / "flow.db").state == "in-use"
