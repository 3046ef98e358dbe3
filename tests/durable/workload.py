"""A process that commits for as long as it lives, and a judge of what it left.

The body of a row follows from its sequence numbers, so the judge needs no copy of the data. After
each commit the process says how far it got: on standard output, and in the log of `disk_faults`.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from torvyn._durable.backend import Append, LogOptions, Row, Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.state_log import Checkpoint, PartName, SavedState, StateLog

LOG = "edge"
OPTIONS = {LOG: LogOptions(max_bytes=4 << 20)}


def body_of(first: int, count: int) -> bytes:
    dice = random.Random(first * 1_000 + count)
    return dice.randbytes(dice.choice((20, 500, 3_000, 20_000)))


class States:
    """A state of many keys, each with the number of the change in which it was set."""

    def __init__(self, store: DurableStore) -> None:
        self.store, self.log = store, StateLog()
        saved = store.checkpoint("segment") or SavedState("segment", "{}", is_log=False)
        self.parts = dict(saved.parts)
        self.log.load(saved, {})

    def take(self, dice: random.Random, number: int) -> Checkpoint:
        """Some keys are set, and some end; the part `last` tells which change was the last."""
        ended = {("node", f"={dice.randrange(40)}") for _ in range(dice.randint(0, 2))}
        keys = {f"={dice.randrange(40)}" for _ in range(dice.randint(1, 5))}
        change: dict[PartName, bytes | None] = dict.fromkeys(ended)
        change |= {("node", key): marked(number) for key in keys}
        change["node", "last"] = b"%d:" % number
        self.parts |= {name: value for name, value in change.items() if value is not None}
        for name in ended - {name for name, value in change.items() if value is not None}:
            self.parts.pop(name, None)
        if not self.log.is_known:
            change = dict(self.parts)
        return self.log.take("segment", "{}", change, self.parts.__getitem__)

    def note(self, checkpoint: Checkpoint) -> None:
        """It was committed, or that failed."""
        saved = self.store.checkpoint("segment")
        if saved is not None and saved.number == checkpoint.number:
            self.log.confirm()


def marked(number: int) -> bytes:
    return b"%d:%s" % (number, body_of(number, 1)[:600])


def check_states(store: DurableStore) -> None:
    """Every key has the body of its number, and some key that of the last change."""
    if (saved := store.checkpoint("segment")) is None:
        return
    parts = {name: value for (_, name), value in saved.parts.items()}
    last = parts.pop("last")
    numbers = [int(value.partition(b":")[0]) for value in parts.values()]
    assert list(parts.values()) == list(map(marked, numbers))
    assert b"%d:" % max(numbers) == last


def transactions(store: DurableStore, seed: int) -> Iterator[Transaction]:
    """Appends, acknowledgements and checkpoints in random proportions."""
    dice, states = random.Random(seed), States(store)
    while True:
        first, appends = store.next_sequence(LOG), []
        for _ in range(dice.randint(0, 3)):
            count = dice.randint(1, 9)
            appends.append(Append(LOG, first, count, body_of(first, count), first))
            first += count
        acknowledged = {}
        waiting = store.next_sequence(LOG) - 1 - store.acknowledged(LOG)
        if waiting > 0 and dice.random() < 0.6:
            step = dice.randint(1, waiting)
            acknowledged = {LOG: store.acknowledged(LOG) + step}
        state = states.take(dice, first) if dice.random() < 0.3 else None
        yield Transaction(appends, acknowledged, {}, state)
        if state is not None:
            states.note(state)


def read_all(store: DurableStore) -> list[Row]:
    rows: list[Row] = []
    while page := store.read(LOG, rows[-1].last if rows else -1, 256 * 1024):
        rows += page
    return rows


def judge(store: DurableStore) -> tuple[set[int], set[int]]:
    """The elements that are there, with the right contents, and those that are reported lost.

    Between the acknowledged position and the end every element is one or the other.
    """
    check_states(store)
    rows = read_all(store)
    assert [row for row in rows if row.body != body_of(row.first, row.count)] == []
    got = {sequence for row in rows for sequence in range(row.first, row.last + 1)}
    lost = {s for gap in store.lost(LOG) for s in range(gap.first, gap.last + 1)}
    expected = set(range(store.acknowledged(LOG) + 1, store.next_sequence(LOG)))
    assert expected <= got | lost
    assert got & lost == set()
    assert store.statistics(LOG).elements == len(expected - lost)
    return got, lost


def position(store: DurableStore) -> int:
    """Both positions of the log in one number."""
    return store.next_sequence(LOG) << 32 | store.acknowledged(LOG) + 1


def main(path: str, seed: int, commits: int) -> None:
    note = getattr(ctypes.CDLL(None), "fault_note", None)
    with DurableStore.open(Path(path), OPTIONS) as store:
        for number, transaction in enumerate(transactions(store, seed)):
            if number == commits:
                break
            store.commit(transaction)
            if note is not None:
                note(ctypes.c_int64(position(store)))
            print(position(store), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
