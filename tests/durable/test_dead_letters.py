"""The store of dead letters: its account, its limit, and what a damaged file costs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scale import sample

from torvyn._durable.dead_letters import LETTER_BYTES, DeadLetterStore, NewLetter
from torvyn._native import EdgeLog
from torvyn.errors import FlowError, StoreUnavailable


def letter(n: int, node: str = "sink", epoch: str = "e", size: int = 1) -> NewLetter:
    body = EdgeLog.encode(b"x" * size, 0)
    return NewLetter(node, epoch, n, 7, "component.invalid-input", "no", body)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "dead-letters.db"


def test_a_letter_comes_back_as_it_was(path: Path) -> None:
    store = DeadLetterStore(path)
    store.add(letter(3, size=5))
    store.close()

    (found,) = (again := DeadLetterStore(path)).read(again.letters())

    assert (found.node, found.epoch, found.sequence, found.at_ns) == ("sink", "e", 3, 7)
    assert EdgeLog.decode(found.body)[0][3] == b"x" * 5
    assert path.stat().st_mode & 0o777 == 0o600


def test_looking_makes_no_file(path: Path) -> None:
    store = DeadLetterStore(path)
    assert (store.nodes(), store.letters(), store.wanting()) == ([], [], [])
    store.check()
    assert not path.parent.exists()


def test_an_element_that_comes_again_is_one_letter_and_an_equal_one_another(
    path: Path,
) -> None:
    for _ in range(2):
        run = DeadLetterStore(path)
        run.add(letter(3))
        run.add(letter(3))
        run.add(letter(4))
        run.close()

    (account,) = DeadLetterStore(path).nodes()
    assert (account.waiting, account.set_aside) == (3, 3)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "retry", "drop", "return", "reopen"]),
        st.integers(0, 5),
        st.sampled_from(["a", "b"]),
        st.integers(0, 3000),
    ),
    max_size=30,
)


@settings(
    deadline=None,
    max_examples=sample(10, full=300),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(ACTIONS)
def test_the_account_is_exact_and_the_limit_holds(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int, str, int]]
) -> None:
    path, limit = tmp_path_factory.mktemp("letters") / "letters.db", 6000
    store, added, lost = DeadLetterStore(path, limit), 0, 0
    for action, at, node, size in actions:
        ids = store.letters()[at : at + 1]
        if action == "add":
            added += 1
            lost += store.add(letter(added, node, size=size * 3))
        elif action == "retry":
            store.retry(ids)
        elif action == "drop":
            store.remove(ids, "discarded")
        elif action == "return":
            store.remove(ids, "returned")
        else:
            store.close()
            store = DeadLetterStore(path, limit)
        accounts = store.nodes()
        for each in accounts:
            gone = each.returned + each.discarded + each.dropped + each.damaged
            assert each.set_aside == each.waiting + gone
        assert sum(each.set_aside for each in accounts) == added
        assert sum(each.dropped for each in accounts) == lost
        assert sum(each.bytes + LETTER_BYTES * each.waiting for each in accounts) <= limit
    store.close()


def test_what_was_noted_for_a_log_is_in_one_of_the_two_files(path: Path) -> None:
    store = DeadLetterStore(path)
    for n in range(4):
        store.add(letter(n))
    ids = store.letters()
    assert store.retry(ids) == 4
    assert [each.id for each in store.wanted("sink", 1)] == ids[:1]
    store.put_back(ids, "log", 10)

    # The log has the elements up to 11.
    store.settle_returned({"log": 12}.get)

    assert store.letters() == ids[2:]
    assert [each.id for each in store.wanted("sink", 1 << 20)] == ids[2:]
    (account,) = store.nodes()
    assert (account.returned, account.retrying) == (2, 2)


def test_letters_on_their_way_cannot_be_dropped(path: Path) -> None:
    store = DeadLetterStore(path)
    store.add(letter(0))
    ids = store.letters()
    store.retry(ids)
    store.put_back(ids, "log", 0)
    assert store.remove(ids, "discarded") == 0


def test_a_damaged_letter_is_left_out_and_counted(path: Path) -> None:
    store = DeadLetterStore(path)
    store.add(letter(0))
    store.add(letter(1))
    store.close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE letters SET message = 'yes' WHERE sequence = 0")

    found = [each.sequence for each in store.read(store.letters())]

    assert found == [1]
    (account,) = store.nodes()
    assert (account.waiting, account.damaged) == (1, 1)


def test_a_file_that_is_no_database_is_an_error_until_it_is_set_aside(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"garbage" * 1000)
    store = DeadLetterStore(path)
    with pytest.raises(StoreUnavailable, match="cannot be read") as caught:
        store.check()
    assert caught.value.code == "durable.damaged"

    aside = store.set_damaged_aside()
    store.add(letter(0))

    assert aside.read_bytes() == b"garbage" * 1000
    assert len(store.letters()) == 1


def test_a_file_of_a_newer_version_is_an_error(path: Path) -> None:
    store = DeadLetterStore(path)
    store.add(letter(0))
    store.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(FlowError, match="newer version") as caught:
        store.check()
    assert caught.value.code == "durable.newer-version"


def test_two_processes_use_it_at_once(path: Path) -> None:
    flow, command = DeadLetterStore(path), DeadLetterStore(path)
    flow.add(letter(0))
    assert command.remove(command.letters(), "discarded") == 1
    flow.add(letter(1))
    assert len(command.letters()) == 1
