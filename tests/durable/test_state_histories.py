"""A crash at any point restores this cut or the one before, and the same cut may be saved again."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from scale import sample
from state_stores import LOGS, OnDisk

from state_histories import StateHistory
from torvyn._durable.backend import Append, Transaction
from torvyn._durable.disk import states as checkpoints
from torvyn._durable.disk.database import crc
from torvyn._durable.disk.states import StateGoneError
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.state_log import Checkpoint, encode_change, join_chunks


@pytest.mark.promise("edge.saved-states")
@pytest.mark.parametrize("seed", range(sample(20, full=400)))
def test_a_kill_restores_the_last_cut_that_was_stored(tmp_path: Path, seed: int) -> None:
    store = OnDisk(tmp_path / "flow.db")
    StateHistory(store, random.Random(seed)).go(60)
    store.store.close()


def test_whole_states_of_earlier_versions_are_read_and_replaced(tmp_path: Path) -> None:
    """They had one record per node, and the shape in a record whose checksum covers all names."""
    large = bytes(100_000)
    states = {"a": b"j1", "large": large, "": b'{"a": "A", "large": "L"}'}
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        for node, state in states.items():
            names = ",a,large" if node == "" else ""
            record = ("s", node, state, crc("s", node, names, body=state))
            store._file.connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", record)
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        saved = store.checkpoint("s")
        assert saved is not None
        assert {node: join_chunks(parts) for node, parts in saved.by_node().items()} == {
            "a": b"j1",
            "large": large,
        }
        assert (json.loads(saved.shape), saved.is_log) == ({"a": "A", "large": "L"}, False)
        store.commit(Transaction(checkpoint=Checkpoint.whole("s", "{}", {("a", "#0"): b"j2"})))
        again = store.checkpoint("s")
        assert again is not None
        assert (again.parts, again.is_log) == ({("a", "#0"): b"j2"}, True)


def test_a_change_of_what_is_gone_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """A store that was damaged may have lost what a change continues."""
    change = Checkpoint("s", "{}", 8, 5, is_whole=False)
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        append = Append("log", 0, 1, b"x", 0)
        with pytest.raises(StateGoneError):
            store.commit(Transaction([append], checkpoint=change))
        assert (store.next_sequence("log"), store.checkpoint("s")) == (0, None)


def test_old_changes_are_deleted_bit_by_bit_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_DELETED", (4, 8))
    with DurableStore.open(tmp_path / "flow.db", LOGS) as store:
        whole = Checkpoint.whole("s", "{}", {("a", "#0"): b"0"})
        store.commit(Transaction(checkpoint=whole))
        for number in range(2, 32):
            body = encode_change({("a", "#0"): str(number).encode()})
            change = Checkpoint("s", "{}", number, 1, body, is_whole=False)
            store.commit(Transaction(checkpoint=change))
        change = Checkpoint("s", "{}", 32, 32, body, is_whole=False)
        counts = []
        for _ in range(5):
            store.commit(Transaction(checkpoint=change))
            query = "SELECT count(*) FROM checkpoints"
            counts += store._file.connection.execute(query)[0]
            saved = store.checkpoint("s")
            assert saved is not None
            assert (saved.first, saved.number, saved.parts) == (32, 32, {("a", "#0"): b"31"})
        assert counts[0] > counts[1] > 2
        assert counts[-1] == 3
