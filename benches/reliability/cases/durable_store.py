"""What does the durable store lose when its process, its disk or its files fail?"""

from __future__ import annotations

import errno
import functools
import json
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
FLOW_KILLS, STORED = 6, 6000
"""Of flows, and the elements that each has stored."""
REPEATS = 200
"""What such a sink takes in five times the 20 ms between commits."""
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

        from torvyn._durable.disk.store import DurableStore

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

        from torvyn._durable.disk.store import DurableStore

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

        from torvyn._durable.disk.store import DurableStore

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

    from torvyn._durable.disk.store import DurableStore
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


def _remove(file: Path) -> None:
    file.unlink()


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3 | 1])


def lost_files(rounds: int) -> Measurement:
    """Elements that are neither there nor counted as lost."""
    faults = (_remove, _empty, _zero, _cut)
    damaged = [(fault, files) for fault in faults for files in (FILES[:1], FILES[1:], FILES)]

    def uncounted(folder: Path, seed: int) -> float:
        from workload import LOG, OPTIONS, transactions

        from torvyn._durable.disk.store import DurableStore

        live, kept, image = folder / "live", folder / "kept", folder / "image"
        with DurableStore.open(live / "flow.db", OPTIONS) as store:
            for transaction in islice(transactions(store, seed), 150):
                store.commit(transaction)
            shutil.copytree(live, kept)
            end = store.next_sequence(LOG)
        missed = 0.0
        for fault, files in damaged:
            shutil.rmtree(image, ignore_errors=True)
            shutil.copytree(kept, image)
            for file in files:
                fault(image / file)
            missed += _uncounted(image / "flow.db", end)
        return missed

    counts = _in_folder(uncounted)(rounds)
    return Measurement(sum(counts), counts, f"{len(damaged) * rounds} damaged stores")


def _uncounted(path: Path, end: int) -> int:
    from workload import LOG, OPTIONS, read_all

    from torvyn._durable.disk.store import DurableStore

    with DurableStore.open(path, OPTIONS) as store:
        due = set(range(store.acknowledged(LOG) + 1, end))
        there = {at for row in read_all(store) for at in range(row.first, row.last + 1)}
        lost = {at for gap in store.lost(LOG) for at in range(gap.first, gap.last + 1)}
        return len(due - there - lost)


def repeated(order: str, rounds: int) -> Measurement:
    """Elements per kill that were delivered before and after it."""
    samples: list[float] = []
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as path:
            samples += _repeats(Path(path), order, random.Random(seed))
    return Measurement(max(samples), samples, f"{sum(samples):g} after {len(samples)} kills")


def _repeats(folder: Path, order: str, dice: random.Random) -> list[float]:
    """Kills a flow whose sink takes 2,000 of 6,000 stored elements per second."""
    program, delivered = TESTS / "durable_flows" / "gateway_process.py", folder / "delivered"
    command = [sys.executable, str(program), str(folder), str(STORED), "1e9", "slow", order]
    before: set[int] = set()
    numbers: set[int] = set()
    samples: list[float] = []
    for _ in range(FLOW_KILLS + 1):
        delivered.write_text("")
        limit_s = dice.uniform(0.1, 0.5) if len(samples) < FLOW_KILLS else 60
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
        lines = [line for line in delivered.read_text().splitlines() if line.startswith("{")]
        records = [json.loads(line) for line in lines if line.endswith("}")]
        now = {record["at"] for record in records}
        numbers |= {record["seq"] for record in records}
        samples.append(float(len(now & before)))
        before |= now
    if len(numbers) != STORED:
        raise AssertionError(f"{STORED - len(numbers)} of {STORED} were not delivered")
    return samples[1:]


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
        "files",
        "a database or its WAL that is gone, empty, zeroed or cut, or both",
        "after 150 commits",
        0,
        "elements neither there nor counted",
        lost_files,
    ),
    _case(
        "repeated",
        "kill -9 of a flow whose sink takes 2,000/s",
        "all elements stored at once; per kill",
        REPEATS,
        "repeated",
        functools.partial(repeated, "oldest-first"),
    ),
    _case(
        "repeated.live-first",
        "the same, with live-first",
        "per kill",
        REPEATS,
        "repeated",
        functools.partial(repeated, "live-first"),
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
