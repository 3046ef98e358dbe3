"""Cases of the package `durable`."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torvyn
from torvyn._durable.backend import Append, LogOptions, Transaction
from torvyn._durable.disk.database import not_a_store, unavailable
from torvyn._durable.disk.store import DurableStore
from torvyn._durable.state_log import Checkpoint

SMALL = {"log": LogOptions(max_bytes=1 << 20)}


def open_twice(folder: Path) -> None:
    with DurableStore.open(folder / "flow.db", SMALL):
        DurableStore.open(folder / "flow.db", SMALL)


def append_too_much(folder: Path) -> None:
    with DurableStore.open(folder / "flow.db", SMALL) as store:
        size = store.max_row_bytes("log")
        for first in range(100):
            store.commit(Transaction([Append("log", first, 1, bytes(size), 0)]))


def append_too_large(folder: Path) -> None:
    with DurableStore.open(folder / "flow.db", SMALL) as store:
        size = store.max_row_bytes("log") + 1
        store.commit(Transaction([Append("log", 0, 1, bytes(size), 0)]))


def open_below_a_file(folder: Path) -> None:
    (folder / "file").touch()
    DurableStore.open(folder / "file" / "flow.db", SMALL)


def open_newer(folder: Path) -> None:
    DurableStore.open(folder / "flow.db", SMALL).close()
    with closing(sqlite3.connect(folder / "flow.db")) as connection:
        connection.execute("ALTER TABLE rows ADD COLUMN lane INTEGER")
        connection.execute("PRAGMA user_version = 2")
    DurableStore.open(folder / "flow.db", SMALL)


def fail(path: Path, error: Exception) -> None:
    raise unavailable(path, error)  # type: ignore[arg-type]


def change_shape(folder: Path) -> None:
    with DurableStore.open(folder / "main" / "flow.db", {}) as store:
        shape = '{"gone": "window"}'
        store.commit(
            Transaction(checkpoint=Checkpoint.whole("source", shape, {("gone", "#0"): b"j1"}))
        )
    flow = torvyn.Flow(torvyn.source(["x"]), torvyn.sink(print), checkpoint_s=1)
    torvyn.Flow.from_plan(replace(flow.plan, state_dir=str(folder))).run()


class Forgetful(torvyn.Source):
    def pull(self) -> None:
        return None

    def acknowledge(self, count: int) -> None:
        pass


def collect_unsafely(folder: Path) -> None:
    collect = torvyn.aggregator(lambda element: None)
    torvyn.Flow(Forgetful(), collect, torvyn.sink(print)).run()


CASES: dict[str, Callable[[Path], object]] = {
    "durable.damaged": lambda folder: fail(folder, not_a_store("it is empty")),
    "durable.disk-failed": open_below_a_file,
    "durable.disk-full": lambda folder: fail(
        folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    ),
    "durable.in-use": open_twice,
    "durable.log-full": append_too_much,
    "durable.newer-version": open_newer,
    "durable.row-too-large": append_too_large,
    "durable.shape-changed": change_shape,
    "durable.unsafe-aggregator": collect_unsafely,
}
