"""`torvyn serve --workers N`: real processes that share a port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from live_server import PATIENCE_S, ask, wait_for
from serve_process import MANIFEST, serving

from torvyn.transport.access.key_file import edit

COUNT = 2
OPTIONS = ("-q", "--workers", str(COUNT))
"""Quiet: nobody reads the log of each request, and a full pipe would block the workers."""
BODY = {"prompt": "Hi"}


class Workers:
    def __init__(self, process: Any, url: str) -> None:
        self.process = process
        self.url = url

    @property
    def pids(self) -> list[int]:
        """The children of the parent that run now."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in found.split()]

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, str]:
        return ask(self.url + path, body, method)

    def answers(self, path: str = "/healthz", status: int = 200) -> bool:
        """Also False for a connection that a worker closes, as it begins to shut down."""
        try:
            return self.ask(path)[0] == status
        except OSError:
            return False

    def seen(self) -> set[str]:
        """The workers that a few connections reach."""
        texts = [self.ask("/metrics")[1] for _ in range(12)]
        return {number for text in texts for number in re.findall(r'worker="(\d)"', text)}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    with serving(tmp_path, *OPTIONS) as (process, url):
        yield Workers(process, url)


def test_connections_are_shared_and_metrics_name_the_worker(workers: Workers) -> None:
    assert sorted(workers.process.said["workers"]) == sorted(workers.pids)
    wait_for(lambda: workers.seen() == {"1", "2"})
    assert '"end"' in workers.ask("/v1/streams", BODY)[1]


def test_a_worker_that_dies_is_started_again_and_the_other_serves_meanwhile(
    workers: Workers,
) -> None:
    victim, other = workers.pids
    os.kill(victim, signal.SIGKILL)
    # The kernel gives new connections to the sockets that are left, once the process is gone.
    wait_for(lambda: all(workers.answers() for _ in range(20)))
    wait_for(lambda: len(workers.pids) == COUNT and other in workers.pids)
    assert any(
        "was ended by SIGKILL; it is started again" in said for said in workers.process.stderr
    )
    wait_for(lambda: workers.seen() == {"1", "2"})


@pytest.mark.parametrize(
    ("path", "body", "method"),
    [
        ("/v1/streams", {**BODY, "stateful": True}, "POST"),
        ("/v1/streams/req-1", None, "GET"),
        ("/v1/streams/req-1?observe=1", None, "GET"),
        ("/v1/streams/req-1", None, "DELETE"),
    ],
)
def test_streams_of_one_worker_are_refused_with_the_reason(
    workers: Workers, path: str, body: Any, method: str
) -> None:
    status, text = workers.ask(path, body, method)

    error = json.loads(text)["error"]
    assert (status, error["code"]) == (400, "transport.stateful-refused")
    assert "2 workers" in error["message"]
    assert ("without `stateful`" in error["hint"]) is (method == "POST")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_all_of_them_and_streams_get_their_end(
    workers: Workers, number: int, status: int
) -> None:
    pids = workers.pids
    request = urllib.request.Request(f"{workers.url}/v1/streams", json.dumps(BODY).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        workers.process.send_signal(number)
        assert b'"end"' in answer.read()
    assert workers.process.wait(10) == status
    assert not any(is_alive(pid) for pid in pids)


@pytest.fixture
def busy_workers(tmp_path: Path) -> Iterator[Workers]:
    """All of them have open streams, and a long time to end them."""
    manifest = MANIFEST.replace("one secret two", "word " * 5000).replace("400ms", "60s")
    (tmp_path / "Torvyn.toml").write_text(manifest)
    with ExitStack() as stack:
        process, url = stack.enter_context(serving(tmp_path, *OPTIONS))
        request = urllib.request.Request(f"{url}/v1/streams", json.dumps(BODY).encode())
        workers = Workers(process, url)
        for _ in range(16):
            stack.enter_context(urllib.request.urlopen(request, timeout=10)).readline()
        assert workers.seen() == {"1", "2"}
        yield workers


def test_while_all_of_them_shut_down_they_say_so(busy_workers: Workers) -> None:
    busy_workers.process.send_signal(signal.SIGTERM)
    wait_for(lambda: all(busy_workers.answers("/readyz", 503) for _ in range(12)))
    assert busy_workers.ask("/v1/streams", BODY)[0] == 503
    busy_workers.process.send_signal(signal.SIGTERM)
    assert busy_workers.process.wait(10) == 143


def test_while_one_of_them_shuts_down_the_other_answers(busy_workers: Workers) -> None:
    victim, _ = busy_workers.pids
    os.kill(victim, signal.SIGTERM)
    wait_for(lambda: all(busy_workers.answers() for _ in range(12)))
    assert all(busy_workers.ask("/readyz")[0] == 200 for _ in range(12))
    assert is_alive(victim)


def test_workers_end_when_their_parent_is_killed(workers: Workers) -> None:
    pids = workers.pids
    workers.process.kill()

    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_a_hangup_reaches_every_worker(tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").write_text(
        MANIFEST.replace("\n[serve]\n", '\n[serve]\naudit = "file"\n')
    )
    audit = tmp_path / "torvyn-audit.jsonl"
    with serving(tmp_path, *OPTIONS) as (process, url):
        audit.rename(tmp_path / "yesterday")
        process.send_signal(signal.SIGHUP)
        workers = Workers(process, url)
        held = tmp_path / "yesterday"
        links = [Path(f"/proc/{pid}/fd") for pid in workers.pids]
        wait_for(lambda: not any(holds(folder, held) for folder in links))
        assert all(holds(folder, audit) for folder in links)


def holds(descriptors: Path, file: Path) -> bool:
    return any(os.path.realpath(link) == str(file) for link in descriptors.iterdir())


def test_the_limits_of_a_key_are_divided(tmp_path: Path) -> None:
    with edit(tmp_path / "keys.json") as file:
        key = file.add("web", requests_per_minute=4)
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    arguments = (*OPTIONS, "--keys", "keys.json")
    with serving(tmp_path, *arguments) as (_, url):
        port = int(url.rpartition(":")[2])
        statuses = [ask_with_key(port, key) for _ in range(40)]

    assert statuses.count(200) == 4
    assert set(statuses) == {200, 429}


def ask_with_key(port: int, key: str) -> int:
    head = f"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(f"{head}Content-Length: 16\r\n\r\n".encode() + b'{"prompt": "Hi"}')
        return int(sock.recv(4096)[9:12])


def test_workers_share_the_port_of_grpc(tmp_path: Path) -> None:
    import grpc
    from grpc_health.v1 import health_pb2 as health
    from grpc_health.v1 import health_pb2_grpc as stubs

    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    with (
        serving(tmp_path, *OPTIONS, "--grpc-port", "0") as (process, _),
        grpc.insecure_channel(process.said["grpc"]) as channel,
    ):
        request = health.HealthCheckRequest()
        answer = stubs.HealthStub(channel).Check(request, timeout=PATIENCE_S)
    assert answer.status == health.HealthCheckResponse.SERVING


def test_a_command_uses_streams_without_state_and_says_so_once(workers: Workers) -> None:
    command = [sys.executable, "-m", "torvyn", "chat", "--server", workers.url]
    done = subprocess.run(
        command, input="Hi\nAgain\n", capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.count("one *** two")) == (0, 2)
    assert done.stderr.count("not continued after a lost connection") == 1


def test_a_session_store_needs_one_process_and_is_refused_at_the_start(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("\n[serve]\n", '\n[serve]\nsession_store = "s.db"\n')
    (tmp_path / "Torvyn.toml").write_text(manifest)
    with (
        pytest.raises(AssertionError, match=r"transport\.workers-refused"),
        serving(tmp_path, "--workers", "2"),
    ):
        pass


def test_a_server_that_cannot_start_is_not_started_again(tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST.replace("scripted", "openai"))
    with pytest.raises(AssertionError, match="error"), serving(tmp_path, "--workers", "2"):
        pass
