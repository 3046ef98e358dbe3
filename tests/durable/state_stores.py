"""A store on the disk for histories of states."""

from __future__ import annotations

from pathlib import Path

from state_histories import SEGMENT, Fate
from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.state_log import Checkpoint, SavedState
from torvyn.errors import StoreUnavailable

LOGS = {"log": LogOptions(8 << 20)}


class OnDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = DurableStore.open(path, LOGS)

    def commit(self, checkpoint: Checkpoint, cut: int, fate: Fate) -> None:
        if fate != "lost":
            number = Append("log", self.store.next_sequence("log"), 1, str(cut).encode(), 0)
            saved = checkpoint if checkpoint.is_new else None
            self.store.commit(Transaction([number], checkpoint=saved))
        if fate != "stored":
            raise StoreUnavailable("io", "the disk fails")

    def kill(self) -> tuple[SavedState | None, int]:
        # What a kill leaves: the files as they are, and no lock.
        self.store._file.connection.execute("BEGIN IMMEDIATE")
        self.store._file.close()
        self.store._owner.release()
        self.store = DurableStore.open(self.path, LOGS)
        rows = self.store.read("log", -1, 1 << 20)
        return self.store.checkpoint(SEGMENT), int(rows[-1].body) if rows else 0

    def stored_bytes(self) -> int:
        query = "SELECT total(length(state)) FROM checkpoints"
        return int(self.store._file.connection.execute(query)[0][0])
