"""Does a gateway run a good generation, whatever cuts, kills or attacks its update?"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benches.reliability.case import Case, Measurement
from benches.reliability.guests import TESTS

INTERRUPTIONS, KILLS, SIMULTANEOUS, DAMAGES, JOURNEYS = 200, 4, 50, 50, 20
"""Per round."""


Attempt = Callable[[Path, random.Random], bool]


def _failures(attempt: Attempt, per_round: int, rounds: int) -> list[float]:
    """How many attempts of each round fail; each has a folder and a seed of its own."""
    _use_tests()
    figures = []
    for seed in range(rounds):
        failed = 0
        for number in range(per_round):
            with tempfile.TemporaryDirectory() as path:
                failed += not attempt(Path(path), random.Random(seed * per_round + number))
        figures.append(float(failed))
    return figures


def _use_tests() -> None:
    folders = [str(TESTS / name) for name in ("edge", "edge/updates", "suite")]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    from scale import choose

    choose(is_full=False)


def _is_bootable(folder: Path) -> bool:
    """Whether a good generation is there, and the one that would be started is complete."""
    from torvyn._deploy.deployment import Deployment

    deployment = Deployment(folder)
    state, records = deployment.state(), deployment.records()
    has_good = bool(state.good & set(records))
    # Not `Deployment.start`, which counts: the third start of a generation on trial gives it up.
    return has_good and state.start(records).current in records


def _deployment_survives(folder: Path, dice: random.Random) -> bool:
    from deployments import add, killed_at, steps_of, with_fallback

    from torvyn._deploy.deployment import Deployment

    def work(deployment: Deployment) -> None:
        deployment.activate(add(deployment, 3).number)
        deployment.start()
        deployment.change(lambda state, records: state.mark_good(3))
        deployment.roll_back()
        deployment.collect()

    steps = steps_of(work, folder / "counted")
    target = with_fallback(folder / "gateway").folder
    killed_at(dice.randint(1, steps), work, target)
    if not _is_bootable(target):
        return False
    work(Deployment(target))
    return _is_bootable(target)


def _update_survives(folder: Path, dice: random.Random) -> bool:
    """Cut at a random byte by its server, or killed at a random step; then continued."""
    from channel_server import channel_server
    from deployments import killed_at
    from followed_channel import FollowedChannel

    from torvyn._deploy.deployment import Deployment
    from torvyn.errors import TorvynError

    channel, deployment = FollowedChannel(folder / "channel"), Deployment(folder / "gateway")
    channel.publish(1, "1.0.0")
    channel.updater(deployment).look()
    deployment.change(lambda state, records: state.mark_good(1))
    channel.publish(2, "2.0.0")
    with channel_server(channel.folder) as server:
        url = f"{server.url}/channel.json"
        for _ in range(3):
            if dice.random() < 0.5:
                server.cut_after(dice.randrange(4000))
                with contextlib.suppress(TorvynError):
                    channel.updater(deployment, url).look()
            else:
                server.cut_after(None)
                step = dice.randint(1, 40)
                killed_at(step, lambda each: channel.updater(each, url).look(), deployment.folder)
            if not _is_bootable(deployment.folder):
                return False
        server.cut_after(None)
        channel.updater(Deployment(deployment.folder), url).look()
    return deployment.state().current == 2


def _simultaneous_updates_agree(folder: Path, dice: random.Random) -> bool:
    """Four updates at once, of which some are killed."""
    from followed_channel import FollowedChannel
    from simultaneous import followed, has_one_update, last_steps, updates

    channel = FollowedChannel(folder / "channel")
    deployment = followed(channel, folder / "gateway")
    ends = updates(channel, deployment.folder, dice.randrange(10**6), last_steps(dice))
    agree = set(ends) <= {"updated", "current", None}
    return agree and _is_bootable(deployment.folder) and has_one_update(channel, deployment)


def _damage_is_found(folder: Path, dice: random.Random) -> bool:
    """A bit of a file of a generation, or its end, is lost after it was compared once."""
    from versioned_gateway import add

    from torvyn._deploy.deployment import Deployment
    from torvyn._deploy.integrity import Integrity

    deployment = Deployment(folder / "gateway")
    record = deployment.record(add(deployment, "1.0.0", folder / "delivered.txt"))
    target, integrity = deployment.path(record.number), Integrity(deployment.verified)
    if integrity.damage(record, target) is not None:
        return False
    file = dice.choice([*target.glob("project/**/*.*"), target / "artifact.json"])
    data = bytearray(file.read_bytes())
    position = dice.randrange(len(data))
    if dice.random() < 0.5:
        data[position] ^= 1 << dice.randrange(8)
    else:
        del data[position:]
    file.chmod(0o644)
    file.write_bytes(data)
    return integrity.damage(record, target) is not None


def _no_channel_rolls_back(folder: Path, dice: random.Random) -> bool:
    """Follows three channels by turns; an attacker serves what he has kept, and states are lost."""
    from test_changed_channels import CHANNELS, STEPS, World

    world = World(folder, dice)
    try:
        for _ in range(STEPS):
            world.act()
        for world.followed in CHANNELS:
            world.take_newest()
            world.take_old()
    except AssertionError:
        return False
    return True


def _run_survives(folder: Path, dice: random.Random) -> bool:
    """kill -9 of the whole run at a random moment after a new version; then started again."""
    import time

    from followed_channel import FollowedChannel
    from running_deployment import Running, running
    from versioned_gateway import lost, pack

    from torvyn._deploy.deployment import Deployment
    from torvyn._deploy.update import add_from_layout

    deployment, output = Deployment(folder / "gateway"), folder / "delivered.txt"
    channel = FollowedChannel(folder / "channel")
    for version in ("1.0.0", "2.0.0"):
        layout, descriptor = pack(channel.folder, version, output)
        add_from_layout(deployment, layout, descriptor, "dist")
    # Both ways of an exchange are killed: the swap of components, and that of the process.
    way = ("--exchange", dice.choice(("auto", "process")))
    first = Running(deployment.folder, output, *way)
    try:
        first.wait_until_good(1)
        deployment.activate(2)
        time.sleep(dice.uniform(0.0, 3.0))
        first.kill()
    finally:
        first.close()
    with running(deployment.folder, output, *way) as again:
        again.wait_until_good(2)
        again.wait_for_version("2.0.0")
    return not lost(output)


def _attacks_accepted(rounds: int) -> Measurement:
    _use_tests()
    from attacks import ATTACKS, is_accepted, scene

    accepted = []
    for _ in range(rounds):
        count = 0
        for attack in ATTACKS.values():
            with tempfile.TemporaryDirectory() as path:
                made = scene(Path(path))
                attack(made)
                count += is_accepted(made)
        accepted.append(float(count))
    return Measurement(sum(accepted), accepted, f"{len(ATTACKS)} attacks: {', '.join(ATTACKS)}")


def _measure(attempt: Attempt, per_round: int, detail: str) -> Callable[[int], Measurement]:
    def measure(rounds: int) -> Measurement:
        figures = _failures(attempt, per_round, rounds)
        return Measurement(sum(figures), figures, f"{per_round} per round; {detail}")

    return measure


CASES = [
    Case(
        "deploy.interrupted",
        "kill -9 of a command of `torvyn deploy`",
        "between two random steps of add, activate, start, rollback and gc",
        0,
        "without a good generation",
        _measure(_deployment_survives, INTERRUPTIONS, "afterwards the command succeeds"),
    ),
    Case(
        "deploy.damaged",
        "damage to a file of a generation",
        "one bit or the end of a random file is lost",
        0,
        "not found before a start",
        _measure(_damage_is_found, DAMAGES, "its files were compared once before"),
    ),
    Case(
        "update.interrupted",
        "update cut, or its process killed",
        "three times at random bytes or steps, then continued",
        0,
        "without a good generation",
        _measure(_update_survives, INTERRUPTIONS, "afterwards the update succeeds"),
    ),
    Case(
        "update.simultaneous",
        "four updates of one deployment at once, some of them killed",
        "the scheduler interrupts them between random steps; kill -9 before a random step",
        0,
        "that fail, or make more than one generation",
        _measure(_simultaneous_updates_agree, SIMULTANEOUS, "one more update finds one generation"),
    ),
    Case(
        "update.channels",
        "a deployment changes its channel and comes back",
        "old documents served at random, a damaged state, bars of each channel",
        0,
        "that roll back, or do not take the newest version",
        _measure(_no_channel_rolls_back, JOURNEYS, "25 random steps each"),
    ),
    Case(
        "update.killed",
        "kill -9 of a gateway that exchanges its generation",
        "0 to 3 s after the new one became current, by swaps or with a new process",
        0,
        "that do not run, or lost readings",
        _measure(_run_survives, KILLS, "afterwards the new generation delivers all readings"),
    ),
    Case(
        "update.attacks",
        "attacks on the channel of a deployment",
        "forged, old, expired, mixed, oversized documents and artifacts",
        0,
        "accepted",
        _attacks_accepted,
    ),
]
