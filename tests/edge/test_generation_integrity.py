"""A generation whose files are not those of its artifact is never started."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from followed_channel import FollowedChannel
from running_deployment import Running, running
from versioned_gateway import add, lost

from torvyn._cli import app
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.deployment_run import DeploymentRun
from torvyn._deploy.disk import Disk
from torvyn._deploy.generation_process import RunOptions
from torvyn._deploy.integrity import Integrity


def flip(path: Path) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "one bit": flip,
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "shorter": lambda path: os.truncate(path, path.stat().st_size - 1),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "empty": lambda path: os.truncate(path, 0),
    "missing": Path.unlink,
    "a folder": as_folder,
    "a link": as_link,
}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Generations 1 and 2 are good, and 2 is current."""
    made = Deployment(tmp_path / "gateway")
    for number, version in enumerate(("1.0.0", "2.0.0"), 1):
        add(made, version, tmp_path / "delivered.txt")
        made.activate(number)
        made.change(lambda state, records, n=number: state.mark_good(n))  # type: ignore[misc]
    return made


def damage(deployment: Deployment, number: int, mode: str = "boot") -> str | None:
    integrity = Integrity(deployment.verified, mode)
    return integrity.damage(deployment.record(number), deployment.path(number))


def break_file(path: Path, how: str = "one bit") -> None:
    path.parent.chmod(0o755)
    path.chmod(0o644)
    DAMAGES[how](path)


FILES = ("project/parts/component.py", "project/Torvyn.toml", "artifact.json")


def test_every_damage_to_every_file_is_found(deployment: Deployment, tmp_path: Path) -> None:
    record = deployment.record(2)

    for number, (file, how, was_compared) in enumerate(product(FILES, DAMAGES, (True, False))):
        folder = tmp_path / str(number)
        shutil.copytree(deployment.path(2), folder)
        integrity = Integrity(tmp_path / f"{number}.json")
        assert not was_compared or integrity.damage(record, folder) is None
        break_file(folder / file, how)
        # Without the list of its files, a generation cannot be compared.
        is_found = (file, how) != ("artifact.json", "missing")
        assert (integrity.damage(record, folder) is not None) is is_found, (file, how)


@pytest.mark.parametrize(
    ("mode", "reads"), [("boot", [True, False]), ("start", [True, True]), ("off", [False, False])]
)
def test_files_that_look_the_same_are_read_once_per_boot(
    deployment: Deployment, mode: str, reads: list[bool]
) -> None:
    def has_read() -> bool:
        chunks: list[bool] = []
        integrity = Integrity(deployment.verified, mode)
        record, folder = deployment.record(2), deployment.path(2)
        assert integrity.damage(record, folder, lambda: chunks.append(True)) is None
        return bool(chunks)

    assert [has_read() for _ in reads] == reads


def test_files_are_read_again_after_a_boot(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks: list[str] = []
    for name in ("one", "one", "two"):
        monkeypatch.setattr("torvyn._deploy.integrity.boot_id", lambda name=name: name)
        Integrity(deployment.verified).damage(
            deployment.record(2),
            deployment.path(2),
            lambda name=name: chunks.append(name),  # type: ignore[misc]
        )

    assert sorted(set(chunks)) == ["one", "two"]
    assert len(chunks) == 4, "two files, twice"


def test_a_note_that_cannot_be_read_or_written_prevents_nothing(deployment: Deployment) -> None:
    deployment.verified.mkdir()

    assert damage(deployment, 2) is None


def test_a_generation_that_was_set_aside_is_kept_until_the_next_one(
    deployment: Deployment,
) -> None:
    deployment.set_aside(2)
    assert (deployment.state().current, deployment.damaged()) == (1, [2])

    add(deployment, "3.0.0", deployment.folder / "out")
    deployment.set_aside(3)
    assert (list(deployment.records()), deployment.damaged()) == ([1], [3])
    deployment.collect()
    assert deployment.damaged() == []


def test_a_damaged_generation_is_passed_over_on_a_disk_that_cannot_be_written_to(
    deployment: Deployment,
) -> None:
    def full(name: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    break_file(deployment.project(2) / "parts/component.py")
    options = RunOptions(command=lambda record: [], ask=lambda pid: ())
    run = DeploymentRun(Deployment(deployment.folder, Disk(full)), options)

    with run._signals:
        started = run._started()

    assert started is not None
    assert (started.number, deployment.state().current) == (1, 2)
    assert "generation 2 is damaged" in run.last_problem


def test_a_damaged_generation_is_listed(
    deployment: Deployment, capfd: pytest.CaptureFixture[str]
) -> None:
    deployment.set_aside(2)

    app.run(["deploy", "list", "gateway", "--root", str(deployment.folder.parent)])
    rows = [line.split()[:3] for line in capfd.readouterr().out.splitlines()]
    app.run(["deploy", "list", "--root", str(deployment.folder.parent), "--format", "json"])

    assert ["gateway", "2", "damaged"] in rows
    assert json.loads(capfd.readouterr().out)["deployments"][0]["damaged"] == [2]


def run(deployment: Deployment, *arguments: str) -> Running:
    return Running(deployment.folder, deployment.folder.parent / "delivered.txt", *arguments)


def test_the_good_generation_before_runs_in_place_of_a_damaged_one(deployment: Deployment) -> None:
    break_file(deployment.project(2) / "parts/component.py")
    output = deployment.folder.parent / "delivered.txt"

    with running(deployment.folder, output) as made:
        made.wait_for_version("1.0.0")
        log = made.log()

    assert "generation 2 is damaged: `parts/component.py`: its digest is" in log
    assert (deployment.state().current, deployment.damaged()) == (1, [2])
    assert (made.versions(), lost(output)) == (["1.0.0"], [])


def test_a_damaged_generation_never_replaces_the_one_that_runs(deployment: Deployment) -> None:
    output = deployment.folder.parent / "delivered.txt"
    with running(deployment.folder, output) as made:
        made.wait_for_version("2.0.0")
        number = add(deployment, "3.0.0", output)
        break_file(deployment.project(number) / "parts/component.py")
        deployment.activate(number)
        made.wait("it is set aside", lambda: deployment.damaged() == [number])
        made.wait_for_current(2)
        assert made.process.poll() is None

    assert made.versions() == ["2.0.0"]


def test_the_only_generation_is_not_started_either(deployment: Deployment) -> None:
    for number in (1, 2):
        break_file(deployment.project(number) / "Torvyn.toml")

    made = run(deployment)
    code = made.process.wait(30)
    made.close()

    assert (code, "edge.damaged" in made.log()) == (2, True)
    assert made.versions() == []


def test_an_update_repairs_what_was_damaged(tmp_path: Path) -> None:
    channel, deployment = FollowedChannel(tmp_path / "channel"), Deployment(tmp_path / "gateway")
    channel.publish(1, "1.0.0")
    channel.updater(deployment).look()
    break_file(deployment.project(1) / "parts/component.py")
    assert damage(deployment, 1) is not None
    deployment.set_aside(1)

    result = channel.updater(deployment).look()

    assert (result.state, result.generation) == ("updated", 2)
    assert damage(deployment, 2) is None
