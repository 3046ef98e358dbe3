"""Processes of groups die at the worst moments: nothing is lost, and nothing begins anew."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_project import ClusterProject

from torvyn.errors import TorvynError

pytestmark = pytest.mark.timeout(240)

COUNT = 300
DEATH = """
import os
import pathlib

def die(when):
    wish = pathlib.Path("death")
    if wish.exists() and wish.read_text() == when:
        wish.unlink()
        os.kill(os.getpid(), 9)
"""
NUMBERS = f"""{DEATH}
class Numbers(torvyn.Source):
    sent = 0

    def pull(self):
        if self.sent == {COUNT}:
            die("numbers-last")
            return None
        self.sent += 1
        return str(self.sent)

    def teardown(self):
        die("numbers-over")
        pathlib.Path("numbers-over").touch()

    def snapshot(self):
        return self.sent

    def restore(self, state):
        self.sent = state
"""
SUMS = f"""{DEATH}
class Sums(torvyn.Processor):
    sum = 0

    def process(self, element):
        self.sum += int(element.text)
        if element.text == "{COUNT}":
            die("sums-last")
        return element.text + " " + str(self.sum)

    def teardown(self):
        die("sums-over")

    def snapshot(self):
        return self.sum

    def restore(self, state):
        self.sum = state
"""
OUT = f"""{DEATH}
import time

class Out(torvyn.Sink):
    def init(self, config):
        self.file = open("delivered", "a")

    def push(self, element):
        if pathlib.Path("slow").exists():
            time.sleep(0.01)
        self.file.write(f"{{element.context.epoch}}:{{element.sequence}} {{element.text}}\\n")
        self.file.flush()
        if element.text.startswith("{COUNT} "):
            die("out-last")

    def teardown(self):
        die("out-over")
"""
CRASHING = """
import os

class Crashing(torvyn.Sink):
    def init(self, config):
        os.kill(os.getpid(), 9)

    def push(self, element):
        pass
"""


@pytest.fixture
def sums(project: ClusterProject) -> ClusterProject:
    for name, code in (("numbers", NUMBERS), ("sums", SUMS), ("out", OUT)):
        project.component(name, code)
    nodes = {name: f'component = "{name}"' for name in ("numbers", "sums", "out")}
    project.write(numbers=nodes["numbers"], sums=">>" + nodes["sums"], out=">>" + nodes["out"])
    return project


def delivered(folder: Path) -> list[str]:
    """What came out, once per id."""
    found = dict(line.split(" ", 1) for line in (folder / "delivered").read_text().splitlines())
    return list(found.values())


EXPECTED = [f"{number} {number * (number + 1) // 2}" for number in range(1, COUNT + 1)]


@pytest.mark.parametrize("moment", ["last", "over"])
@pytest.mark.parametrize("group", ["numbers", "sums", "out"])
def test_a_group_that_dies_at_its_end(
    sums: ClusterProject,
    ray_address: str,
    nats: str,
    group: str,
    moment: str,
) -> None:
    (sums.folder / "death").write_text(f"{group}-{moment}")

    end = sums.run(ray_address, nats=nats, is_fresh=True)

    assert (end.state, end.error, end.restarts) == ("completed", None, 1)
    assert delivered(sums.folder) == EXPECTED


def command(folder: Path, ray_address: str, nats: str, *options: str) -> subprocess.Popen[bytes]:
    arguments = ["-m", "torvyn", "run", "-q", "--on", ray_address, "--nats", nats, *options]
    return subprocess.Popen([sys.executable, *arguments], cwd=folder, stderr=subprocess.PIPE)


def test_a_command_outside_of_the_cluster(sums: ClusterProject, ray_client: str, nats: str) -> None:
    (sums.folder / "death").write_text("sums-last")

    run = command(sums.folder, ray_client, nats, "--fresh")

    assert run.wait(180) == 0, run.communicate()
    run.communicate()
    assert not (sums.folder / "death").exists()
    assert delivered(sums.folder) == EXPECTED


def test_a_command_that_dies_after_the_source_has_ended_continues_its_run(
    sums: ClusterProject, ray_address: str, nats: str
) -> None:
    (sums.folder / "slow").touch()
    first = command(sums.folder, ray_address, nats, "--fresh")
    while not (sums.folder / "numbers-over").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    first.kill()
    first.communicate()
    (sums.folder / "slow").unlink()

    second = command(sums.folder, ray_address, nats)

    assert second.wait(120) == 0, second.communicate()
    second.communicate()
    assert delivered(sums.folder) == EXPECTED


def test_a_fresh_run_begins_anew_once(sums: ClusterProject, ray_address: str, nats: str) -> None:
    (sums.folder / "slow").touch()
    first = command(sums.folder, ray_address, nats, "--fresh")
    while not (sums.folder / "delivered").exists() or len(delivered(sums.folder)) < 20:
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 143, first.communicate()
    first.communicate()
    (sums.folder / "delivered").unlink()
    (sums.folder / "slow").unlink()
    (sums.folder / "death").write_text("out-last")

    end = sums.run(ray_address, nats=nats, is_fresh=True)

    assert (end.error, end.restarts) == (None, 1)
    assert delivered(sums.folder) == EXPECTED


def test_a_group_that_dies_again_and_again_fails_the_flow(
    project: ClusterProject, ray_address: str, nats: str
) -> None:
    project.component("numbers", NUMBERS)
    project.component("crashing", CRASHING)
    project.write(numbers='component = "numbers"', crashing='>>component = "crashing"')

    end = project.run(ray_address, nats=nats, is_fresh=True)

    assert isinstance(end.error, TorvynError)
    assert end.error.code == "cluster.group-crashes"
    assert end.restarts >= 5


def test_a_state_on_disk_is_discarded_once(project: ClusterProject, ray_address: str) -> None:
    project.component("numbers", NUMBERS)
    project.component("out", OUT)
    project.write(numbers='component = "numbers"', out='component = "out"')
    manifest = project.folder / "Torvyn.toml"
    manifest.write_text(manifest.read_text() + '[flow.main]\ncheckpoint = "20ms"\n')
    (project.folder / "slow").touch()
    for death in ("", "numbers-last"):
        (project.folder / "delivered").write_text("")
        (project.folder / "death").write_text(death)
        end = project.run(ray_address, is_fresh=True)
        assert (end.error, end.restarts) == (None, int(bool(death)))
        # The second run begins with the first number, and after the death with its last commit.
        texts = [line.split()[1] for line in (project.folder / "delivered").open()]
        assert texts[0] == "1"
        assert set(texts) == {str(number) for number in range(1, COUNT + 1)}
        assert len(texts) < 2 * COUNT - 100
