"""Updates of one deployment by several processes at once, some of which are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from followed_channel import FollowedChannel

from torvyn._deploy.deployment import Deployment
from torvyn._deploy.disk import Disk
from torvyn.errors import TorvynError

UPDATERS = 4


def interleaved(dice: random.Random, last_step: int | None) -> Callable[[str], None]:
    """Lets others run for a while between any two steps; kills the process before the last one."""
    count = 0

    def on_step(name: str) -> None:
        nonlocal count
        count += 1
        if count == last_step:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(dice.choice((0, 0, 1, 10, 200))):
            os.sched_yield()

    return on_step


def forked(work: Callable[[], object], report: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            report.write_text(json.dumps(work()))
        except BaseException:
            report.write_text(json.dumps(traceback.format_exc()))
        finally:
            os._exit(0)
    return pid


def updates(
    channel: FollowedChannel, folder: Path, seed: int, last_steps: list[int | None]
) -> list[str | None]:
    """How each of several updates at once has ended; None if it was killed."""

    def one(number: int) -> str:
        disk = Disk(interleaved(random.Random(seed * 100 + number), last_steps[number]))
        try:
            return str(channel.updater(Deployment(folder, disk)).look().state.value)
        except TorvynError as error:
            return error.code

    reports = [folder.parent / f"{folder.name}-{number}" for number in range(len(last_steps))]
    pids = [
        forked(lambda number=number: one(number), report)  # type: ignore[misc]
        for number, report in enumerate(reports)
    ]
    ends = [os.waitpid(pid, 0)[1] for pid in pids]
    return [
        None if os.WIFSIGNALED(end) else json.loads(report.read_text())
        for end, report in zip(ends, reports, strict=True)
    ]


def followed(channel: FollowedChannel, folder: Path) -> Deployment:
    """Version 1 runs and is good, and version 2 is published."""
    deployment = Deployment(folder)
    channel.publish(1, "1.0.0")
    channel.updater(deployment).look()
    deployment.change(lambda state, records: state.mark_good(1))
    channel.publish(2, "2.0.0")
    return deployment


def last_steps(dice: random.Random) -> list[int | None]:
    """Before which step each is killed; None for those that are not."""
    return [dice.choice((None, dice.randint(1, 25))) for _ in range(UPDATERS)]


def has_one_update(channel: FollowedChannel, deployment: Deployment) -> bool:
    """Whether version 2 is one generation, which is current, after one more look."""
    last = channel.updater(Deployment(deployment.folder)).look()
    made = [each.number for each in deployment.records().values() if each.version == 2]
    return made == [last.generation] == [deployment.state().current]
