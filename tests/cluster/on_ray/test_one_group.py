"""A flow without `nats` edges is one group: one process, somewhere on the cluster."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from cluster_project import ClusterProject

from torvyn._cluster import flow_run
from torvyn.errors import TorvynError

pytestmark = pytest.mark.timeout(120)

NUMBERS = """
class Numbers(torvyn.Source):
    def pull(self):
        self.next = getattr(self, "next", 0) + 1
        return str(self.next) if self.next <= 3 else None
"""
ENDLESS = """
import os
import time

class Endless(torvyn.Source):
    def init(self, config):
        print(os.getpid(), flush=True)

    def pull(self):
        time.sleep(0.001)
        return "x"
"""
FAILING = """
class Failing(torvyn.Sink):
    def push(self, element):
        raise torvyn.InvalidInput("seven is not a number", hint="send numbers")
"""


def test_the_group_prints_here_and_is_counted(
    project: ClusterProject, ray_address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    project.component("numbers", NUMBERS)
    project.write(numbers='component = "numbers"', out='component = "console"')

    end = project.run(ray_address)

    assert capfd.readouterr().out == "1\n2\n3\n"
    assert (end.state, end.error, end.restarts) == ("completed", None, 0)
    assert (end.statistics.produced, end.statistics.emitted) == (3, 3)


def test_a_group_without_a_process_is_reported_once(
    project: ClusterProject,
    ray_address: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(flow_run, "WAITING_S", 0.5)
    project.component("numbers", NUMBERS)
    nowhere = 'component = "numbers"\nplace = { resources = { telescope = 1 } }'
    project.write(numbers=nowhere, out='component = "null"')

    end = project.run(ray_address, deadline_s=2)

    waiting = [text for text in caplog.messages if "has had no process for 0.5 s" in text]
    assert isinstance(end.error, TorvynError)
    assert (end.error.code, len(waiting)) == ("reactor.deadline-exceeded", 1), caplog.messages


def test_the_group_writes_where_one_process_would(
    project: ClusterProject, ray_address: str, tmp_path: Path
) -> None:
    project.component("numbers", NUMBERS)
    out = 'component = "file"\nconfig = { path = "out.txt" }'
    project.write(numbers='component = "numbers"', out=out)

    project.run(ray_address)

    assert (tmp_path / "out.txt").read_text() == "1\n2\n3\n"


def test_a_group_on_another_machine_has_the_files(
    project: ClusterProject, ray_address: str, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    out = f'component = "file"\nconfig = {{ path = "{tmp_path}/out.txt" }}'
    project.write(lines='component = "lines"\nconfig = { path = "in.txt" }', out=out)

    end = project.run(ray_address, sends_files=True)

    assert end.error is None
    assert (tmp_path / "out.txt").read_text() == "a\nb\n"


def test_an_error_of_a_component_is_the_error_of_the_flow(
    project: ClusterProject, ray_address: str
) -> None:
    project.component("numbers", NUMBERS)
    project.component("failing", FAILING)
    project.write(numbers='component = "numbers"', failing='component = "failing"')

    end = project.run(ray_address)

    assert end.state == "failed"
    assert isinstance(end.error, TorvynError)
    assert (end.error.code, end.error.hint) == ("component.invalid-input", "send numbers")
    assert "replica 0 of group `numbers`" in end.error.message
    assert end.statistics.nodes["failing"].failed == 1


def test_a_flow_that_takes_too_long_has_failed(project: ClusterProject, ray_address: str) -> None:
    project.component("endless", ENDLESS)
    project.write(endless='component = "endless"', out='component = "null"')

    end = project.run(ray_address, deadline_s=1.0)

    assert isinstance(end.error, TorvynError)
    assert end.error.code == "reactor.deadline-exceeded"


def started(capfd: pytest.CaptureFixture[str]) -> int:
    """Waits until the endless source has printed the id of its process."""
    text, waiting = "", threading.Event()
    while "\n" not in text:
        text += capfd.readouterr().out
        waiting.wait(0.05)
    return int(text.split()[0])


def test_draining_ends_the_flow(
    project: ClusterProject, ray_address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    project.component("endless", ENDLESS)
    project.write(endless='component = "endless"', out='component = "null"')
    with project.open(ray_address) as run:
        ends = []
        thread = threading.Thread(target=lambda: ends.append(run.run()))
        thread.start()
        started(capfd)
        run.drain()
        thread.join()

    assert ends[0].error is None
    assert ends[0].statistics.emitted == ends[0].statistics.produced > 0


def test_a_group_that_dies_without_a_saved_state_fails_the_flow(
    project: ClusterProject, ray_address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    project.component("endless", ENDLESS)
    project.write(endless='component = "endless"', out='component = "null"')
    with project.open(ray_address) as run:
        ends = []
        thread = threading.Thread(target=lambda: ends.append(run.run()))
        thread.start()
        os.kill(started(capfd), signal.SIGKILL)
        thread.join()

    assert ends[0].error.code == "cluster.group-died"
