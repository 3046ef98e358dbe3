"""Several flows in one process, for other commands and for systemd."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from service_manager import ServiceManager, service_manager
from transcript import Cli

from torvyn._cli.flow_socket import running_flows

Start = Callable[..., "subprocess.Popen[str]"]
Flows = Callable[..., Path]

# The source reads the gate file, so that the test decides when the next line appears.
FEED = """
    class Feed(torvyn.Source):
        run = "thread"
        def init(self, config):
            self.gate = open(config)
        def pull(self):
            line = self.gate.readline()
            return line.strip() if line else torvyn.PENDING.after(0.001)
"""
STAMP = """
    class Stamp(torvyn.Processor):
        def init(self, config):
            print("init VERSION", flush=True)
        def process(self, element):
            if element.text == "fail":
                raise torvyn.Internal("told to")
            print(element.text + "-VERSION", flush=True)
"""
NAMES = ("p1", "q1")
"""Flows of other tests run on the same machine, under other names."""
PARTS = {"feed": FEED, "stamp": STAMP}


def chain(name: str) -> dict[str, str]:
    feed = f"component = 'feed'\nconfig = 'gate-{name}'"
    return {"feed": feed, "stamp": "component = 'stamp'", "sink": "component = 'null'"}


class Running:
    """The flows `p1` and `q1` in a process of their own."""

    def __init__(self, folder: Path, start: Start, **options: object) -> None:
        self.folder = folder
        for name in NAMES:
            (folder / f"gate-{name}").write_text("")
        self.process = start("run", "--all", cwd=folder, **options)
        # Each has begun, in any order.
        assert {self.read(), self.read()} == {"p1 | init VERSION", "q1 | init VERSION"}
        assert {self.ask(name) for name in NAMES} == {"p1 | x-VERSION", "q1 | x-VERSION"}

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, name: str, line: str) -> None:
        with (self.folder / f"gate-{name}").open("a") as gate:
            gate.write(f"{line}\n")

    def ask(self, name: str) -> str:
        """What the flow prints for one more line."""
        self.tell(name, "x")
        return self.read()


@pytest.fixture
def folder(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project, and a folder for sockets, whose path must be short."""
    sockets = tempfile.mkdtemp(prefix="tv")
    monkeypatch.setenv("XDG_RUNTIME_DIR", sockets)
    yield flows(parts=PARTS, p1=chain("p1"), q1=chain("q1"))
    shutil.rmtree(sockets)


@pytest.fixture
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceManager]:
    with service_manager(tmp_path_factory.mktemp("manager")) as made:
        yield made


def test_each_flow_of_a_process_is_shown(start: Start, cli: Cli, folder: Path) -> None:
    running = Running(folder, start)

    found = json.loads(cli("top", "--format", "json", "--pid", running.process.pid).out)["flows"]

    assert [(each["flow"], each["pid"]) for each in found] == [
        ("p1", running.process.pid),
        ("q1", running.process.pid),
    ]
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(30) == 130
    assert [each for each in running_flows() if each["pid"] == running.process.pid] == []


def test_one_flow_of_a_process_is_reloaded_by_its_name(
    start: Start, cli: Cli, folder: Path
) -> None:
    running = Running(folder, start)
    stamp = folder / "stamp" / "component.py"
    stamp.write_text(stamp.read_text().replace("VERSION", "new"))

    done = cli("reload", "p1", "--yes", "--timeout", "1ms", cwd=folder)

    assert (done.code, done.out) == (0, "Changes of flow 'p1':\n  stamp: code\n"), done.err
    # What the new component prints has the name of its flow, too.
    assert running.read() == "p1 | init new"
    assert (running.ask("p1"), running.ask("q1")) == ("p1 | x-new", "q1 | x-VERSION")


def test_all_flows_of_a_process_are_reloaded_by_its_number(
    start: Start, cli: Cli, folder: Path
) -> None:
    running = Running(folder, start)
    stamp = folder / "stamp" / "component.py"
    stamp.write_text(stamp.read_text().replace("VERSION", "new"))

    done = cli(
        "reload", running.process.pid, "--yes", "--timeout", "1ms", "--format", "json", cwd=folder
    )

    assert done.code == 0, done.err
    found = json.loads(done.out)["flows"]
    assert [(each["flow"], len(each["swaps"])) for each in found] == [("p1", 1), ("q1", 1)]
    assert {running.read(), running.read()} == {"p1 | init new", "q1 | init new"}
    assert (running.ask("p1"), running.ask("q1")) == ("p1 | x-new", "q1 | x-new")


def test_systemd_is_told_when_all_flows_run_and_when_they_stop(
    start: Start, folder: Path, manager: ServiceManager
) -> None:
    running = Running(folder, start, env=manager.environ(1.0))

    assert manager.receive() == {"READY": "1", "STATUS": "running 2 flows"}
    fed = manager.receive()
    assert fed["WATCHDOG"] == "1"
    assert fed["STATUS"].startswith("2 flows, ")
    running.process.send_signal(signal.SIGTERM)
    last = manager.receive_until(lambda message: "STOPPING" in message)[-1]
    assert last == {"STOPPING": "1", "STATUS": "draining 2 flows"}
    assert running.process.wait(30) == 143


def test_a_flow_that_fails_ends_a_service_so_that_all_are_started_again(
    start: Start, folder: Path, manager: ServiceManager
) -> None:
    running = Running(folder, start, env=manager.environ())

    running.tell("p1", "fail")
    err = running.process.communicate(timeout=30)[1]

    assert running.process.returncode == 1
    assert "q1 | [torvyn] Flow 'q1' completed." in err
    assert "flow `p1` failed: the others are drained" in err


def test_a_service_runs_several_flows(cli: Cli, folder: Path) -> None:
    def unit(*arguments: str) -> dict[str, str]:
        done = cli("service", "install", "--print", "--format", "json", *arguments, cwd=folder)
        assert done.code == 0, done.err
        made: dict[str, str] = json.loads(done.out)
        return made

    every, both, one = unit("--all"), unit("flow.p1", "flow.q1"), unit("flow.q1")

    assert [each["unit"] for each in (every, both, one)] == [
        "torvyn-project.service",
        "torvyn-project.service",
        "torvyn-project-q1.service",
    ]
    assert " run --all --manifest " in every["text"]
    assert " run flow.p1 flow.q1 --manifest " in both["text"]
    assert "Description=Torvyn flows p1, q1 of project" in both["text"]
