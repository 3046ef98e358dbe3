"""`torvyn top`: asks the flows that run, and shows what their nodes use."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pseudo_terminal import CTRL_C, Terminal
from transcript import Cli

from failing_once import UNEXPECTED, fail_once
from torvyn._cli.commands.top import render_flow
from torvyn._cli.flow_socket import UnixServer, ask, make_private, own_folder, running_flows

Start = Callable[..., "subprocess.Popen[str]"]

SOURCE = """
    class Feed(torvyn.Source):
        count = 0
        def pull(self):
            self.count += 1
            return "7" * 1000 if self.count <= 30 else torvyn.PENDING
"""
SINK = """
    import threading
    class Deliver(torvyn.Sink):
        run = "thread"
        count = 0
        def push(self, element):
            self.count += 1
            if self.count == 11:
                print("begun", flush=True)
                threading.Event().wait()
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sockets; its path must be short."""
    folder = tempfile.mkdtemp(prefix="tv")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def process(start: Start, project: Callable[..., Path], runtime: Path) -> subprocess.Popen[str]:
    """A flow whose sink has taken 11 of 30 elements and is stuck in the last one."""
    nodes = {"feed": 'component = "feed"', "deliver": 'component = "deliver"'}
    process = start("run", cwd=project(nodes, feed=SOURCE, deliver=SINK))
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    while _delivered_and_made(process) != (10, 30):
        pass
    return process


def documents_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Other flows may run on the machine, too."""
    return [found for found in running_flows() if found["pid"] == process.pid]


def _delivered_and_made(process: subprocess.Popen[str]) -> tuple[int, int]:
    """The counts of a flow become visible a moment after its component knows them."""
    nodes = documents_of(process)[0]["statistics"]["nodes"]
    return nodes["deliver"]["passed"], nodes["feed"]["emitted"]


def test_a_running_flow_is_shown_with_the_bytes_of_its_nodes(
    cli: Cli, process: subprocess.Popen[str]
) -> None:
    found = cli("top", "--format", "json", "--pid", process.pid)
    (flow,) = json.loads(found.out)["flows"]
    node = flow["statistics"]["nodes"]["deliver"]

    assert (flow["pid"], flow["flow"], flow["version"]) == (process.pid, "main", 1)
    assert flow["resident_bytes"] > 1 << 20
    assert (node["received"] - node["passed"] >= 1, node["passed"]) == (True, 10)
    # 30 of 1000 bytes, less the 10 that were delivered.
    assert flow["statistics"]["nodes"]["feed"]["live_bytes"] == 20_000


def test_the_table_names_the_node_that_the_elements_wait_for(
    cli: Cli, process: subprocess.Popen[str]
) -> None:
    lines = cli("top", "--once", "--pid", process.pid).out.splitlines()

    assert lines[0].startswith(f"flow main   process {process.pid}   up ")
    assert lines[3].split()[:5] == ["node", "role", "in/s", "out/s", "errors"]
    assert [line.split()[:2] for line in lines[4:6]] == [["feed", "source"], ["deliver", "sink"]]
    assert lines[4].split()[-4:-2] == ["of", "64"]
    assert cli("top", "--once", "--pid", "1").out == "No flow is running.\n"


def test_rates_are_those_since_the_last_look(process: subprocess.Popen[str]) -> None:
    (first,), (second,) = documents_of(process), documents_of(process)
    second["statistics"]["elapsed_s"] = first["statistics"]["elapsed_s"] + 2.0
    second["statistics"]["nodes"]["deliver"]["received"] += 10
    row = render_flow(second, first).splitlines()[5].split()

    assert row[:4] == ["deliver", "sink", "5", "0"]


class Expired(BaseHTTPRequestHandler):
    """A server for which every token has expired."""

    def do_POST(self) -> None:
        self.send_error(401)

    def log_message(self, format: str, *arguments: object) -> None: ...


@pytest.fixture
def rejected(
    start: Start, project: Callable[..., Path], runtime: Path
) -> Iterator[subprocess.Popen[str]]:
    """A flow whose server rejects it."""
    with HTTPServer(("127.0.0.1", 0), Expired) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uplink = f'component = "http"\nconfig = "http://127.0.0.1:{server.server_port}/in"'
        nodes = {"feed": 'component = "feed"', "uplink": uplink}
        yield start("run", cwd=project(nodes, feed=SOURCE))
        server.shutdown()


def test_a_connection_is_shown_with_its_state_and_the_reason(
    rejected: subprocess.Popen[str],
) -> None:
    row = ""
    while "rejected" not in row:
        assert rejected.poll() is None
        rows = [render_flow(found, None).splitlines()[-1] for found in documents_of(rejected)]
        row = rows[0] if rows else ""

    assert row.split()[0] == "uplink"
    assert row.endswith("the server answered 401 Unauthorized")


def test_the_live_table_ends_with_ctrl_c(
    process: subprocess.Popen[str], open_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    folder = os.environ["XDG_RUNTIME_DIR"]
    terminal = open_terminal("top", "--interval", "100ms", cwd=tmp_path, XDG_RUNTIME_DIR=folder)
    for _ in range(2):
        terminal.expect("deliver")
    terminal.send(CTRL_C)

    assert terminal.wait() == 0


def test_the_sockets_go_with_the_flow(process: subprocess.Popen[str], runtime: Path) -> None:
    names = {path.name for path in (runtime / "torvyn").iterdir()}
    assert names == {f"{process.pid}.sock", f"{process.pid}.control"}
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    process.communicate()

    assert list((runtime / "torvyn").iterdir()) == []


def test_the_sockets_of_a_killed_flow_are_removed(
    process: subprocess.Popen[str], runtime: Path
) -> None:
    process.kill()
    process.wait()

    assert documents_of(process) == []
    assert list((runtime / "torvyn").iterdir()) == []


def test_what_answers_something_else_is_no_flow(runtime: Path) -> None:
    path = runtime / "other.sock"
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(str(path))
        listener.listen()
        answer = pool.submit(ask, path)
        connection, _ = listener.accept()
        connection.sendall(b"[1, 2]")
        connection.close()

        assert answer.result(10) is None
    assert ask(runtime / "absent.sock") is None


def test_a_folder_that_others_may_write_to_is_not_used(runtime: Path) -> None:
    folder = own_folder()
    folder.mkdir()
    folder.chmod(0o777)

    with pytest.raises(ValueError, match="others may write"):
        make_private(folder)


def test_a_flow_without_a_socket_runs(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, project: Callable[..., Path]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/nowhere")
    source = 'component = "lines"\nconfig = { path = "Torvyn.toml" }'
    nodes = {"a": source, "b": 'component = "null"'}

    assert cli("run", cwd=project(nodes)).code == 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow that stands still for 0.2 s has stalled."""
    monkeypatch.setenv("WATCHDOG_USEC", "200000")


def test_a_flow_that_stands_still_fails_its_check(
    impatient: None, cli: Cli, process: subprocess.Popen[str]
) -> None:
    checks = iter(lambda: cli("top", "--check", "--pid", process.pid), None)
    failed = next(done for done in checks if done.code)

    assert failed.code == 1
    assert "stalled" in failed.out
    assert cli("top", "--check", "--pid", "1").out == "No flow is running.\n"


def test_a_flow_that_works_passes_its_check(cli: Cli, process: subprocess.Popen[str]) -> None:
    done = cli("top", "--check", "--pid", process.pid)

    assert (done.code, done.out) == (0, "")


class Greeting(UnixServer):
    timeout_s = 2.0

    def answer(self, connection: socket.socket) -> None:
        connection.sendall(b'{"pid": 1}')


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_does_not_end_the_answers(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    fail_once(monkeypatch, Greeting, "answer", error)
    with Greeting():
        path = own_folder() / f"{os.getpid()}.sock"

        assert [ask(path), ask(path)] == [None, {"pid": 1}]
