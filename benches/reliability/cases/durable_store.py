"""What does the durable store lose when its process, its disk or its files fail?"""

from __future__ import annotations

import errno
import functools
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import TESTS

KILLS, FLIPS, OUTAGES = 20, 200, 100
"""Per round."""
FILES = ("flow.db", "flow.db-wal")


def _in_folder(measure: Callable[[Path, int], float]) -> Callable[[int], list[float]]:
    """A figure per round, each in a folder of its own."""

    def run(rounds: int) -> list[float]:
        if (folder := str(TESTS / "durable")) not in sys.path:
            sys.path.insert(0, folder)
        figures = []
        for seed in range(rounds):
            with tempfile.TemporaryDirectory() as path:
                figures.append(measure(Path(path), seed))
        return figures

    return run


def _needs_compiler() -> None:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        raise SkipCase("needs a C compiler")


@functools.cache
def _killed(rounds: int) -> tuple[list[float], list[float]]:
    """Elements that were committed and are gone, and the milliseconds until the store is open."""
    opened_ms: list[float] = []

    def lost(folder: Path, seed: int) -> float:
        from workload import LOG, OPTIONS, judge

        from torvyn.durable import DurableStore

        dice, path, lost = random.Random(seed), folder / "flow.db", 0
        for number in range(KILLS):
            said = _kill(path, seed * KILLS + number, dice.randint(1, 200))
            began_s = time.perf_counter()
            with DurableStore.open(path, OPTIONS) as store:
                opened_ms.append((time.perf_counter() - began_s) * 1000)
                lost += max(0, (said >> 32) - store.next_sequence(LOG)) + len(judge(store)[1])
        return float(lost)

    return _in_folder(lost)(rounds), opened_ms


def _kill(path: Path, seed: int, commits: int) -> int:
    """Kills a process that commits; returns the last position that it reported."""
    command = [sys.executable, str(TESTS / "durable" / "workload.py"), str(path), str(seed)]
    with subprocess.Popen([*command, "1000000"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(commits):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        complete = [line for line in process.stdout if line.endswith("\n")]
    return int(complete[-1]) if complete else 0


def killed(rounds: int) -> Measurement:
    counts, _ = _killed(rounds)
    return Measurement(sum(counts), counts, f"{KILLS * rounds} kills")


def recovery(rounds: int) -> Measurement:
    took = sorted(_killed(rounds)[1])
    p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
    return Measurement(p99, took, f"median {took[len(took) // 2]:.1f} ms")


def power_loss(rounds: int) -> Measurement:
    _needs_compiler()

    def lost(folder: Path, seed: int) -> float:
        from disk_faults import run_scenario
        from power_loss import images, read_events
        from workload import LOG, OPTIONS, judge

        from torvyn.durable import DurableStore

        (live := folder / "live").mkdir()
        run_scenario("commit_and_note", live, seed, 200, 5, log=folder / "log")
        dice, events, lost = random.Random(seed), read_events(folder / "log"), 0
        moments = [dice.randrange(len(events)) for _ in range(OUTAGES)]
        for noted, files in images(events, moments, dice):
            shutil.rmtree(image := folder / "image", ignore_errors=True)
            image.mkdir()
            for name, content in files.items():
                (image / name).write_bytes(content)
            with DurableStore.open(image / "flow.db", OPTIONS) as store:
                lost += max(0, (noted >> 32) - store.next_sequence(LOG)) + len(judge(store)[1])
        return float(lost)

    counts = _in_folder(lost)(rounds)
    return Measurement(sum(counts), counts, f"{OUTAGES * rounds} power failures")


def flipped(rounds: int) -> Measurement:
    def undetected(folder: Path, seed: int) -> float:
        from workload import LOG, OPTIONS, transactions

        from torvyn.durable import DurableStore

        dice, live, kept = random.Random(seed), folder / "live", folder / "kept"
        with DurableStore.open(live / "flow.db", OPTIONS) as store:
            for transaction in islice(transactions(store, seed), 150):
                store.commit(transaction)
            shutil.copytree(live, kept)
            end = store.next_sequence(LOG)
        return float(sum(_is_missed(kept, folder / "flipped", dice, end) for _ in range(FLIPS)))

    counts = _in_folder(undetected)(rounds)
    return Measurement(sum(counts), counts, f"{FLIPS * rounds} damaged files")


def _is_missed(kept: Path, folder: Path, dice: random.Random, end: int) -> bool:
    """Flips bits of one file; True if the store does not start or misses the damage."""
    from workload import LOG, OPTIONS, judge

    from torvyn.durable import DurableStore
    from torvyn.errors import TorvynError

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)
    path = folder / dice.choice(FILES)
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 4, 40))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    try:
        with DurableStore.open(folder / "flow.db", OPTIONS) as store:
            judge(store)
            return store.next_sequence(LOG) != end
    except (AssertionError, TorvynError):
        return True


def failing_disk(rounds: int) -> Measurement:
    _needs_compiler()

    def broken(folder: Path, seed: int) -> float:
        from disk_faults import SYNC, WRITE, run_scenario

        failures = 0
        for number, (operation, error) in enumerate(
            (o, e) for o in (WRITE, SYNC) for e in (errno.EIO, errno.ENOSPC)
        ):
            (place := folder / str(number)).mkdir()
            try:
                run_scenario("fail_each", place, operation, error, seed % 7 + 1)
            except AssertionError:
                failures += 1
        return float(failures)

    counts = _in_folder(broken)(rounds)
    return Measurement(sum(counts), counts, "120 commits each, with EIO and with ENOSPC")


def _case(name: str, fault: str, how: str, limit: float, unit: str, measure: Any) -> Case:
    return Case(f"durable.{name}", fault, how, limit, unit, measure)


CASES = [
    _case("killed", "kill -9 of a process that commits", "at a random moment", 0, "lost", killed),
    _case("recovery", "the same", "until the store is open again", 1000, "ms, p99", recovery),
    _case(
        "power-loss",
        "power failure, with every fifth sync failing",
        "unsynced sectors are written, torn or missing",
        0,
        "committed elements lost",
        power_loss,
    ),
    _case(
        "flips",
        "flipped bits in the database and its WAL",
        "1 to 40 bits at random places",
        0,
        "undetected, or not started",
        flipped,
    ),
    _case(
        "disk",
        "the n-th write or sync fails",
        "preloaded shim",
        0,
        "runs with a loss, a partial commit or no recovery",
        failing_disk,
    ),
]
