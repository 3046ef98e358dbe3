"""SIGHUP: a new certificate and a new audit file, while open connections continue."""

from __future__ import annotations

import asyncio
import http.client
import os
import pty
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from certificates import Files
from live_server import wait_for
from serve_process import MANIFEST, serving

from torvyn._link.plan import Plan
from torvyn.errors import TorvynError
from torvyn.serve import app
from torvyn.transport.listener.hangup import Reloader
from torvyn.transport.listener.server import Server

SERVE = """
[serve]
tls_cert = "cert.pem"
tls_key = "key.pem"
audit = "file"
"""


class Running:
    """A server whose certificate is that of `use`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: Any = None
        self.port = 0

    def use(self, files: Files) -> None:
        for name in ("cert.pem", "key.pem"):
            shutil.copy(Path(files.cert).parent / name, self.folder / name)

    def connect(self, files: Files) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=files.trusted)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=10)

    def trusts(self, files: Files) -> bool:
        try:
            self.connect(files).connect()
        except ssl.SSLCertVerificationError:
            return False
        return True

    def reload(self) -> None:
        os.kill(self.process.pid, signal.SIGHUP)


@pytest.fixture
def certificates(tmp_path: Path) -> list[Files]:
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        folder.mkdir()
    return [Files(folder) for folder in folders]


@pytest.fixture
def running(tmp_path: Path, certificates: list[Files]) -> Iterator[Running]:
    running = Running(tmp_path)
    running.use(certificates[0])
    (tmp_path / "Torvyn.toml").write_text(MANIFEST.replace("\n[serve]\n", SERVE))
    with serving(tmp_path) as (running.process, url):
        running.port = int(urlsplit(url).port or 0)
        yield running


class Links:
    """A server whose flows are linked for as long as the test wants; it counts."""

    def __init__(self) -> None:
        self.application = app({})
        self.application.link_flows = self._link
        self.url = "http://localhost"
        self.is_over = threading.Event()
        self.begun = self.running = self.most = 0

    def reload(self) -> list[TorvynError]:
        return []

    def _link(self) -> dict[str, Plan]:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        assert self.is_over.wait(10)
        self.running -= 1
        return {}


@pytest.mark.parametrize("signals", [1, 2, 50])
async def test_signals_that_arrive_during_a_reload_are_one_more(signals: int) -> None:
    server = Links()
    reloader = Reloader(cast(Server, server))
    for _ in range(signals):
        reloader.reload()
    while not server.begun:
        await asyncio.sleep(0.001)
    server.is_over.set()
    while reloader.is_running:
        await asyncio.sleep(0.001)

    assert (server.begun, server.most) == (min(signals, 2), 1)
    reloader.reload()
    while reloader.is_running:
        await asyncio.sleep(0.001)
    assert server.begun == min(signals, 2) + 1


def status(connection: http.client.HTTPSConnection) -> int:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_new_connections_get_the_new_certificate_and_open_ones_continue(
    running: Running, certificates: list[Files]
) -> None:
    old, new = certificates
    before = running.connect(old)
    assert status(before) == 200
    running.use(new)
    assert running.trusts(old)
    running.reload()

    wait_for(lambda: running.trusts(new))
    assert not running.trusts(old)
    assert status(before) == 200


def test_a_broken_certificate_is_reported_and_the_old_one_stays(
    running: Running, certificates: list[Files]
) -> None:
    (running.folder / "cert.pem").write_text("no PEM")
    running.reload()

    assert "in PEM format; the server keeps what it has" in running.process.stderr.readline()
    assert status(running.connect(certificates[0])) == 200
    assert not running.trusts(certificates[1])


def test_an_audit_file_that_was_moved_away_is_created_again(
    running: Running, certificates: list[Files]
) -> None:
    audit = running.folder / "torvyn-audit.jsonl"
    audit.rename(running.folder / "yesterday.jsonl")
    running.reload()
    wait_for(audit.exists)
    connection = running.connect(certificates[0])
    connection.request("POST", "/v1/streams", '{"prompt": "Hi"}')
    connection.getresponse().read()

    wait_for(lambda: "stream.ended" in audit.read_text())
    assert (running.folder / "yesterday.jsonl").read_text() == ""


def test_a_server_ends_with_the_terminal_in_which_it_was_started(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "torvyn", "serve", "--engine", "scripted", "--port", "0"]
    command += ["--format", "json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    os.close(slave)
    assert process.stdout is not None
    with process.stdout as said:
        assert b"serving" in said.readline()
        os.close(master)
        process.send_signal(signal.SIGHUP)
        assert process.wait(10) == 143
