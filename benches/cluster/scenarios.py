"""Kills one part of a cluster in the middle of a run, and compares the output with one process."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.cluster.machines import Machines
from benches.cluster.workload import (
    Delivery,
    deliveries,
    expected,
    processes,
    write_project,
)

COUNT: Final = 1_600
RATE: Final = 800
TIMEOUT_S: Final = 120.0
PARTS: Final = ("worker", "raylet", "broker", "driver")


@dataclass(frozen=True, slots=True)
class Killed:
    """What a run delivered whose part was killed."""

    lost: int
    wrong: int
    """Outputs that one process does not have, or has once and this run twice under two ids."""
    repeated: int
    """Deliveries with an id that was delivered before."""
    gap_s: float
    """The longest time without an output of one key."""
    load: float
    """The load average of the machine at the end."""


def kill(machines: Machines, part: str, seed: int, count: int = COUNT) -> Killed:
    """One run in which the part is killed at a random point."""
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="torvyn-kill-"))
    try:
        write_project(folder, count, RATE)
        after = chance.randrange(count // 8, count // 2)
        _run(machines, folder, part, after, chance)
        return _judge(deliveries(folder), count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(machines: Machines, folder: Path, part: str, after: int, chance: random.Random) -> None:
    driver = _start(machines, folder)
    try:
        _wait(lambda: len(deliveries(folder)) >= after, driver)
        worker = chance.choice(list(dict.fromkeys(processes(folder, "counts"))))
        if part == "worker":
            os.kill(worker, signal.SIGKILL)
        elif part == "raylet":
            machines.kill_raylet(worker)
        elif part == "broker":
            machines.kill_broker()
        else:
            driver.kill()
            driver.communicate()
            driver = _start(machines, folder)
        _, errors = driver.communicate(timeout=TIMEOUT_S)
        if driver.returncode != 0:
            raise AssertionError(f"the flow failed: {errors.decode(errors='replace')[-2000:]}")
    finally:
        driver.kill()
        driver.communicate()
        if part == "raylet":
            machines.repair()


def _start(machines: Machines, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torvyn", "run", "flow.main", "--on", machines.address]
    command += ["--nats", machines.broker.url, "--set", f"runtime.state_dir={folder}/state"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _wait(is_reached: Callable[[], bool], driver: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + TIMEOUT_S
    while not is_reached():
        if driver.poll() is not None or time.monotonic() > until_s:
            driver.kill()
            _, errors = driver.communicate()
            raise AssertionError(f"the flow ended early: {errors.decode(errors='replace')[-2000:]}")
        time.sleep(0.02)


def _judge(found: list[Delivery], count: int) -> Killed:
    by_id: dict[str, str] = {}
    conflicts = 0
    for delivery in found:
        conflicts += by_id.setdefault(delivery.id, delivery.text) != delivery.text
    texts, right = set(by_id.values()), expected(count)
    wrong = conflicts + len(by_id) - len(texts) + len(texts - right)
    load, repeated = os.getloadavg()[0], len(found) - len(by_id)
    return Killed(len(right - texts), wrong, repeated, _longest_gap(found), load)


def _longest_gap(found: list[Delivery]) -> float:
    last: dict[str, float] = {}
    longest = 0.0
    for delivery in found:
        longest = max(longest, delivery.at_s - last.get(delivery.key, delivery.at_s))
        last[delivery.key] = delivery.at_s
    return longest
