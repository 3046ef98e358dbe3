"""Damage anywhere in the files is found and counted, and never prevents a start."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from scale import sample
from workload import LOG, OPTIONS, judge, position, transactions

from torvyn._durable.backend import Append, Transaction
from torvyn._durable.disk.store import DurableStore

FILES = ("flow.db", "flow.db-wal", "flow.db.mark")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The files of a store as a kill leaves them, with a WAL, and its position."""
    live, copy = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed")
    with DurableStore.open(live / "flow.db", OPTIONS) as store:
        for transaction in islice(transactions(store, 1), 150):
            store.commit(transaction)
        assert store.statistics(LOG).elements > 20
        for name in FILES:
            shutil.copy(live / name, copy / name)
        return copy, position(store)


@pytest.fixture
def folder(killed: tuple[Path, int], tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(killed[0] / name, tmp_path / name)
    return tmp_path


def judge_damaged(folder: Path, expected: int) -> tuple[set[int], set[int]]:
    """Opens a damaged store, which goes on working."""
    with DurableStore.open(folder / "flow.db", OPTIONS) as store:
        result = judge(store)
        assert position(store) >> 32 == expected >> 32
        first = store.next_sequence(LOG)
        store.commit(Transaction([Append(LOG, first, 1, b"new", 0)]))
        assert store.read(LOG, first - 1, 1)[0].body == b"new"
        return result


def flips(path: Path, dice: random.Random) -> Iterator[int]:
    size = path.stat().st_size
    for _ in range(dice.choice((1, 1, 1, 8, 64))):
        yield dice.randrange(size)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(sample(10, full=40)))
def test_flipped_bits_are_found(
    folder: Path, killed: tuple[Path, int], name: str, seed: int
) -> None:
    dice, data = random.Random(f"{name}{seed}"), bytearray((folder / name).read_bytes())
    for place in flips(folder / name, dice):
        data[place] ^= 1 << dice.randrange(8)
    (folder / name).write_bytes(data)

    judge_damaged(folder, killed[1])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(sample(4, full=10)))
def test_a_torn_tail_is_found(folder: Path, killed: tuple[Path, int], name: str, seed: int) -> None:
    size = (folder / name).stat().st_size
    os.truncate(folder / name, random.Random(seed).randrange(size))

    judge_damaged(folder, killed[1])


@pytest.mark.parametrize("page", range(12))
def test_a_page_of_zeros_is_found(folder: Path, killed: tuple[Path, int], page: int) -> None:
    with (folder / "flow.db").open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(4096))

    judge_damaged(folder, killed[1])


def test_an_intact_copy_loses_nothing(folder: Path, killed: tuple[Path, int]) -> None:
    assert judge_damaged(folder, killed[1])[1] == set()


@pytest.mark.parametrize("contents", [b"", b"garbage" * 5000, b"SQLite format 3\0"])
def test_garbage_in_place_of_the_database_is_set_aside(
    folder: Path, killed: tuple[Path, int], contents: bytes
) -> None:
    (folder / "flow.db").write_bytes(contents)
    (folder / "flow.db-wal").unlink()

    got, lost = judge_damaged(folder, killed[1])

    assert got == set()
    assert len(lost) == (killed[1] >> 32) - (killed[1] & 0xFFFFFFFF)


def test_a_folder_in_place_of_the_database_is_set_aside(
    folder: Path, killed: tuple[Path, int]
) -> None:
    (folder / "flow.db").unlink()
    (folder / "flow.db").mkdir()

    judge_damaged(folder, killed[1])

    assert (folder / "flow.db.corrupt-1").is_dir()


def test_a_damaged_first_page_loses_no_row(folder: Path, killed: tuple[Path, int]) -> None:
    with DurableStore.open(folder / "flow.db", OPTIONS):
        pass  # the rows are in the database now, not in the WAL
    with (folder / "flow.db").open("r+b") as file:
        file.write(os.urandom(4096))

    got, lost = judge_damaged(folder, killed[1])

    assert lost == set()
    assert len(got) >= (killed[1] >> 32) - (killed[1] & 0xFFFFFFFF)
