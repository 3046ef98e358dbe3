"""A flow whose groups run in processes of their own prints what one process prints."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_project import ClusterProject

import torvyn
from torvyn.errors import TorvynError

pytestmark = pytest.mark.timeout(180)

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster-pipeline"
TICKS = """
import time

class Ticks(torvyn.Source):
    sent = 0

    def pull(self):
        time.sleep(0.001)
        self.sent += 1
        return str(self.sent)

    def snapshot(self):
        return self.sent

    def restore(self, state):
        self.sent = state
"""
FAILING = """
class Failing(torvyn.Sink):
    def push(self, element):
        raise torvyn.Fatal("the printer is on fire")
"""


def torvyn_run(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "torvyn", "run", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_output_is_that_of_one_process(ray_address: str, nats: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder)
    alone = torvyn_run(folder, "-q", "--fresh").communicate()

    many = torvyn_run(folder, "-q", "--on", ray_address, "--nats", nats).communicate()

    assert many == alone
    assert alone == ("".join(alone[0].splitlines(True)[:6]), "")


def test_a_program_gets_the_statistics_of_all_groups(
    ray_address: str, nats: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")

    statistics = torvyn.run(on=ray_address, settings={"cluster.nats": nats})

    assert (statistics.produced, statistics.emitted) == (96, 6)
    assert {edge.entered == edge.taken for edge in statistics.edges} == {True}
    assert statistics.unread == 0


def test_an_error_of_one_group_ends_the_flow(
    project: ClusterProject, ray_address: str, nats: str
) -> None:
    project.component("ticks", TICKS)
    project.component("failing", FAILING)
    project.write(ticks='component = "ticks"', failing='>>component = "failing"')

    end = project.run(ray_address, nats=nats)

    assert isinstance(end.error, TorvynError)
    assert end.error.code == "component.fatal"
    assert "replica 0 of group `failing`" in end.error.message


def numbers(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "out.txt").read_text().splitlines()]


def test_a_flow_that_is_terminated_saves_its_state_and_continues(
    project: ClusterProject, ray_address: str, nats: str, tmp_path: Path
) -> None:
    project.component("ticks", TICKS)
    out = '>>component = "file"\nconfig = { path = "out.txt" }'
    project.write(pulse='component = "ticks"', out=out)
    (tmp_path / "out.txt").touch()
    for _ in range(2):
        # The run before has written on until it ended.
        least = len(numbers(tmp_path)) + 100
        run = torvyn_run(tmp_path, "--on", ray_address, "--nats", nats)
        while len(numbers(tmp_path)) < least:
            assert run.poll() is None, run.communicate()
            time.sleep(0.02)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 143, run.communicate()
        run.communicate()

    found = numbers(tmp_path)
    assert found == list(range(1, len(found) + 1))
