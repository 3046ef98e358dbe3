"""Processes whose disk fails: `c/disk_faults.c`, preloaded.

As a library: builds the shim and runs a scenario of this module in a process of its own. As a
script: runs the scenario.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pytest
from workload import OPTIONS, judge, position, transactions

from torvyn._durable.backend import Transaction
from torvyn._durable.disk.store import DurableStore
from torvyn.errors import StoreUnavailable

HERE = Path(__file__).parent
WRITE, SYNC, TRUNCATE, OPEN = range(4)


@lru_cache
def shim() -> Path:
    """The compiled shim; skips without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    source = HERE / "c" / "disk_faults.c"
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    built = Path(folder.name) / "disk_faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"], check=True)
    return built


def run_scenario(name: str, folder: Path, *arguments: int, log: Path | None = None) -> None:
    """Runs a function of this module with a disk that can fail below `folder`."""
    environment = {**os.environ, "LD_PRELOAD": str(shim()), "FAULT_PREFIX": str(folder)}
    if log is not None:
        environment["FAULT_LOG"] = str(log)
    command = [sys.executable, __file__, name, str(folder / "flow.db"), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def failing(operation: int, nth: int, error: int, times: int = 1) -> Iterator[None]:
    """The disk fails in the block: from the n-th operation on, so many times."""
    arm = ctypes.CDLL(None).fault_arm
    arm(operation, ctypes.c_long(nth), error, ctypes.c_long(times))
    try:
        yield
    finally:
        arm(operation, ctypes.c_long(0), 0, ctypes.c_long(0))


def commit_until_it_works(store: DurableStore, transaction: Transaction) -> int:
    """The number of failures. A failed commit leaves the positions as they were."""
    for failures in range(200):
        before = position(store)
        try:
            store.commit(transaction)
            return failures
        except StoreUnavailable:
            assert position(store) == before
    raise AssertionError("the store does not recover")


# Scenarios


def fail_each(path: Path, operation: int, error: int, times: int) -> None:
    """The n-th operation fails, for every n; afterwards everything is there."""
    failures = 0
    with DurableStore.open(path, OPTIONS) as store:
        for nth, transaction in enumerate(islice(transactions(store, error), 120), 1):
            with failing(operation, nth % 20 + 1, error, times):
                failures += commit_until_it_works(store, transaction)
        expected = position(store)
    with DurableStore.open(path, OPTIONS) as store:
        assert position(store) == expected
        assert judge(store)[1] == set()
    assert failures > 0, "no operation failed: the shim has no effect"


def fail_open(path: Path, operation: int, error: int) -> None:
    """A disk that fails while a store is opened means: not now."""
    with DurableStore.open(path, OPTIONS) as store:
        for transaction in islice(transactions(store, 7), 40):
            store.commit(transaction)
        expected, failures = position(store), 0
    for nth in range(1, 25):
        with failing(operation, nth, error):
            try:
                DurableStore.open(path, OPTIONS).close()
            except StoreUnavailable:
                failures += 1
        with DurableStore.open(path, OPTIONS) as store:
            assert position(store) == expected
            assert judge(store)[1] == set()
    assert failures > 0


def commit_and_note(path: Path, seed: int, commits: int, fail_every: int) -> None:
    """Commits, and notes in the shim's log what is durable. Every n-th sync fails."""
    note = ctypes.CDLL(None).fault_note
    with DurableStore.open(path, OPTIONS) as store:
        for number, transaction in enumerate(islice(transactions(store, seed), commits), 1):
            times = 1 if fail_every and number % fail_every == 0 else 0
            with failing(SYNC, 1, errno.EIO, times):
                commit_until_it_works(store, transaction)
            note(ctypes.c_int64(position(store)))
        os._exit(0)  # as a kill does: the WAL is not copied to the database


def fail_a_sync_and_die(path: Path, seed: int) -> None:
    """A process ends after a sync that failed: the next one must not trust the page cache."""
    with DurableStore.open(path, OPTIONS) as store:
        for transaction in islice(transactions(store, seed), 20):
            store.commit(transaction)
        with failing(SYNC, 1, errno.EIO, 1):
            for transaction in transactions(store, seed + 1):
                try:
                    store.commit(transaction)
                except StoreUnavailable:
                    os._exit(0)


def main() -> None:
    scenario: Callable[..., None] = globals()[sys.argv[1]]
    scenario(Path(sys.argv[2]), *map(int, sys.argv[3:]))


if __name__ == "__main__":
    main()
