"""Runs random flows, ends them in every way, and judges what was delivered.

    python random_runs.py FOLDER FIRST LAST

Every run is a process of its own, which is killed, drained, cancelled or cut off from its disk; the
last one of a seed runs to its end. Prints a line per broken law, and exits with 1 if there is one.
With `tests/durable/c/disk_faults.c` preloaded, the disk fails as well.
"""

from __future__ import annotations

import ctypes
import errno
import json
import logging
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from durable_parts import check_account
from random_graph import RandomFlow, RandomGraph
from random_laws import broken_laws

from torvyn.errors import TorvynError

WRITE, SYNC = 0, 1
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    ending: str
    """`kill`, `drain`, `cancel` or `complete`."""
    after_s: float = 0.0
    fault: tuple[int, int, int, int] | None = None
    """An operation of the disk, its number, the error, and how often it fails."""
    fault_after_s: float = 0.0


def random_runs(seed: int) -> list[Run]:
    rng = random.Random(f"runs {seed}")
    kinds = rng.choice((("kill",), ("kill", "drain", "cancel"), ("drain",)))
    has_faults = rng.random() < 0.4 and has_shim()
    runs = []
    for _ in range(rng.randint(1, 4)):
        after_s = rng.choice((rng.uniform(0.005, 0.1), rng.uniform(0.05, 0.6)))
        runs.append(Run(rng.choice(kinds), after_s, *(random_fault(rng) if has_faults else ())))
    return [*runs, Run("complete")]


def random_fault(rng: random.Random) -> tuple[tuple[int, int, int, int], float]:
    operation, error = rng.choice((WRITE, SYNC)), rng.choice((errno.EIO, errno.ENOSPC))
    return (operation, rng.randint(1, 30), error, rng.choice((1, 3, 50))), rng.uniform(0, 0.2)


def has_shim() -> bool:
    return hasattr(ctypes.CDLL(None), "fault_arm")


# One run, in a process of its own


def in_child(work: Callable[[], dict[str, Any]], report: Path, limit_s: float) -> dict[str, Any]:
    """What `work` returns in a child process, or how the child ended."""
    child = os.fork()
    if child == 0:
        try:
            report.write_text(json.dumps(work()))
        except BaseException:
            report.write_text(json.dumps({"error": traceback.format_exc()}))
        os._exit(0)
    deadline_s = time.monotonic() + limit_s
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"killed": True}
        time.sleep(0.001)
    return json.loads(report.read_text()) if report.exists() else {"error": "it vanished"}


def run_flow(seed: int, folder: Path, run: Run) -> dict[str, Any]:
    os.environ["TORVYN_RUNTIME__STATE_DIR"] = str(folder / "state")
    os.environ["FAULT_PREFIX"] = str(folder / "state")
    logging.getLogger("torvyn").setLevel(logging.CRITICAL)
    flow = RandomGraph(seed, folder).build().flow
    if run.fault is not None:
        _later(
            run.fault_after_s, partial(ctypes.CDLL(None).fault_arm, *map(ctypes.c_long, run.fault))
        )
    try:
        flow.start()
        if run.ending in ("drain", "cancel"):
            _later(run.after_s, flow.drain if run.ending == "drain" else flow.cancel)
        flow.wait()
    except TorvynError as error:
        if run.fault is None or not error.code.startswith("durable."):
            raise
        return {"state": "refused"}
    check_account(flow)
    source = flow.plan.nodes[0].component.instance
    return {"state": flow.statistics.state, "sent": source.next}


def _later(delay_s: float, work: Callable[[], Any]) -> None:
    timer = threading.Timer(delay_s, work)
    timer.daemon = True
    timer.start()


# One seed


def run_seed(seed: int, folder: Path) -> list[str]:
    """The laws that the flow of this seed has broken."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    runs, ended = random_runs(seed), []
    made = RandomGraph(seed, folder).build()
    for number, run in enumerate(runs):
        limit_s = run.after_s if run.ending == "kill" else LIMIT_S
        report = folder / f"report{number}"
        result = in_child(partial(run_flow, seed, folder, run), report, limit_s)
        if "error" in result:
            return [f"run {number} ({run}): {result['error']}"]
        if result.get("killed") and run.ending != "kill":
            return [f"run {number} ({run}) did not end"]
        ended.append(result.get("state", "killed"))
        if _is_complete(result, made):
            break
    return broken_laws(
        made,
        folder,
        is_gentle=set(ended) <= {"cancelled", "completed"}
        and all(run.ending in ("drain", "complete") and run.fault is None for run in runs),
    )


def _is_complete(result: dict[str, Any], made: RandomFlow) -> bool:
    return result.get("state") == "completed" and result["sent"] == made.count


def main() -> int:
    folder, failures = Path(sys.argv[1]), 0
    for seed in range(int(sys.argv[2]), int(sys.argv[3])):
        for law in run_seed(seed, folder / str(seed)):
            failures += 1
            print(f"seed {seed}: {law}", flush=True)
        if not failures:
            shutil.rmtree(folder / str(seed), ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
