"""The server under systemd: its messages, and the shipped unit."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import missing
import pytest
from serve_process import MANIFEST, serving

from torvyn._io.supervision import notify, watchdog_interval_s

UNIT = (Path(__file__).parents[3] / "deploy" / "torvyn.service").read_text()
BINARY = "/opt/torvyn/bin/torvyn"
needs_analyze = missing.needs_program("systemd-analyze")


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    """What systemd listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + address[1:] if address.startswith("@") else address)
        sock.settimeout(20)
        yield sock


def test_it_reports_that_it_serves_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with manager(address) as told, serving(tmp_path) as (process, url):
        ready = told.recv(4096).decode().splitlines()
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
            status = answer.status
        process.send_signal(signal.SIGTERM)
        stopping = told.recv(4096).decode().splitlines()
        assert process.wait(10) == 143

    assert ready == ["READY=1", f"STATUS=serving at {url}"]
    assert status == 200
    assert stopping == ["STOPPING=1", "STATUS=ending 0 streams"]


def test_a_watched_server_reports_that_its_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    with manager(address) as told, serving(tmp_path):
        messages = [told.recv(4096).decode().splitlines()[0] for _ in range(3)]

    assert messages == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]


@pytest.mark.parametrize(
    ("timeout_us", "process", "interval_s"),
    [
        ("60000000", "", 30.0),
        ("60000000", "this", 30.0),
        ("60000000", "1", None),
        ("0", "", None),
        ("soon", "", None),
    ],
)
def test_the_watchdog_is_fed_twice_per_timeout_if_it_watches_this_process(
    monkeypatch: pytest.MonkeyPatch, timeout_us: str, process: str, interval_s: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", timeout_us)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if process == "this" else process)

    assert watchdog_interval_s() == interval_s


def test_a_name_outside_the_file_system_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"@torvyn-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with manager(address) as told:
        assert notify("READY=1")
        assert told.recv(4096) == b"READY=1"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all", "@nobody-listens-here"])
def test_without_systemd_nothing_is_sent_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)

    assert not notify("READY=1")


def test_a_manager_that_does_not_read_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with manager(address):
        said = [notify("STATUS=" + "x" * 4000) for _ in range(2000)]

    assert said[0]
    assert not said[-1]


@needs_analyze
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "torvyn.service"
    file.write_text(UNIT.replace(BINARY, sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, "")


@needs_analyze
def test_the_unit_leaves_little_to_reach(tmp_path: Path) -> None:
    file = tmp_path / "torvyn.service"
    file.write_text(UNIT.replace(BINARY, sys.executable))
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(file)]
    judged = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert judged.returncode == 0, judged.stdout[-200:]


def test_the_command_of_the_unit_serves(tmp_path: Path) -> None:
    (found,) = re.findall(rf"^ExecStart={BINARY} serve (.+)$", UNIT, re.MULTILINE)
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    arguments = [str(tmp_path) if word == "/etc/torvyn" else word for word in found.split()]
    with (
        serving(tmp_path.parent, *arguments) as (_, url),
        urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer,
    ):
        assert answer.status == 200
