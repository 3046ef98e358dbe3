"""`torvyn service`: what it asks of systemd, whose programs are recorded here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import EXAMPLE, Cli

RECORDER = """#!{python}
import json, os, sys
name = os.path.basename(sys.argv[0])
if sys.argv[1:] == ["--version"]:
    print("systemd 255 (255)")
    sys.exit()
with open({calls!r}, "a") as file:
    file.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
answers = json.load(open({answers!r}))
answer = answers.get(name, {{}})
print(answer.get("out", ""), end="")
print(answer.get("err", ""), end="", file=sys.stderr)
sys.exit(answer.get("code", 0))
"""
RUNNING = """\
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Result=success
StatusText=moving: 20 produced, 3 emitted
MainPID=77
NRestarts=2
MemoryCurrent=47185920
CPUUsageNSec=1500000000
ActiveEnterTimestamp=Mon 2026-11-16 06:00:00 UTC
"""
UNIT = "torvyn-token-streaming.service"


class Machine:
    """A machine with systemd: its programs note their arguments and answer what they are told."""

    def __init__(self, folder: Path) -> None:
        self.units = folder / "config" / "systemd" / "user"
        self._calls, self._answers = folder / "calls", folder / "answers"
        self._calls.touch()
        self.answer()
        self.programs = folder / "programs"
        self.programs.mkdir()
        text = RECORDER.format(
            python=sys.executable, calls=str(self._calls), answers=str(self._answers)
        )
        for name in ("systemctl", "journalctl", "loginctl"):
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)

    def answer(self, **answers: dict[str, object]) -> None:
        self._answers.write_text(json.dumps(answers))

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._calls.read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{machine.programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("torvyn._cli.systemd.is_systemd_running", lambda: True)
    return machine


@pytest.fixture
def service(cli: Cli) -> Callable[..., object]:
    return lambda *arguments: cli("service", *arguments, cwd=EXAMPLE)


def test_install_writes_the_unit_and_starts_it(service: Cli, machine: Machine) -> None:
    done = service("install", "--memory-max", "256MiB", "--set", "runtime.turn_time=50us")

    text = (machine.units / UNIT).read_text()
    assert done.code == 0
    assert "MemoryMax=268435456\n" in text
    assert f"-m torvyn run flow.main --manifest {EXAMPLE / 'Torvyn.toml'} --format json" in text
    assert "--set runtime.turn_time=50us\n" in text
    assert machine.calls[:3] == [
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "enable", UNIT],
        ["systemctl", "--user", "restart", UNIT],
    ]
    assert "loginctl enable-linger" in done.err


def test_install_can_leave_the_start_to_the_next_boot(service: Cli, machine: Machine) -> None:
    machine.answer(loginctl={"out": "Linger=yes\n"})
    done = service("install", "--no-start", "--name", "other", "--format", "json")

    path = str(machine.units / "torvyn-other.service")
    found = json.loads(done.out)
    assert (found["unit"], found["path"], found["started"]) == (Path(path).name, path, False)
    assert not any("restart" in call for call in machine.calls)


def test_print_needs_no_systemd(
    service: Cli, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torvyn._cli.systemd.is_systemd_running", lambda: False)

    printed, installed = service("install", "--print"), service("install")

    assert printed.out.startswith("[Unit]\n")
    assert installed.code == 3
    assert "error[cli.no-systemd]: systemd does not run on this machine" in installed.err
    assert not machine.units.exists()


def test_a_flow_that_cannot_run_is_not_installed(service: Cli, machine: Machine) -> None:
    done = service("install", "--config", "nobody.x=1")

    assert done.code == 2
    assert machine.calls == []
    assert not machine.units.exists()


def test_a_failure_of_systemd_is_shown(service: Cli, machine: Machine) -> None:
    machine.answer(systemctl={"code": 1, "err": "Failed to connect to bus\n"})

    done = service("install")

    assert done.code == 2
    assert "`systemctl --user daemon-reload` failed: Failed to connect to bus" in done.err


def test_options_of_the_system_need_a_unit_of_the_system(service: Cli, machine: Machine) -> None:
    done = service("install", "--device", "/dev/ttyUSB0")

    assert done.code == 2
    assert "`--device` is for a unit of the system" in done.err


def test_status_shows_the_service_and_its_flow(service: Cli, machine: Machine) -> None:
    machine.answer(systemctl={"out": RUNNING})

    done, found = service("status"), json.loads(service("status", "--format", "json").out)

    assert done.code == 0
    assert "active (running) since Mon 2026-11-16 06:00:00 UTC" in done.out
    assert "moving: 20 produced, 3 emitted" in done.out
    assert (found["memory_bytes"], found["cpu_s"], found["restarts"]) == (47185920, 1.5, 2)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ("LoadState=not-found\nActiveState=inactive\n", f"{UNIT}: not installed\n"),
        (RUNNING.replace("=active", "=failed"), "failed (running)"),
    ],
)
def test_status_of_what_does_not_run_is_3(
    service: Cli, machine: Machine, properties: str, text: str
) -> None:
    machine.answer(systemctl={"out": properties})

    done = service("status")

    assert (done.code, text in done.out) == (3, True)


def test_logs_are_rendered_for_people_or_as_the_flow_wrote_them(
    service: Cli, machine: Machine
) -> None:
    record = {"level": "warning", "message": "no connection\x1b[2J", "event": "connection.waiting"}
    entries = [
        {"__REALTIME_TIMESTAMP": "1700000000000000", "MESSAGE": json.dumps(record)},
        {"__REALTIME_TIMESTAMP": "1700000000000000", "MESSAGE": "Started.", "PRIORITY": "6"},
        {"__REALTIME_TIMESTAMP": "1700000000000000", "MESSAGE": [104, 105, 255]},
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    machine.answer(journalctl={"out": lines})

    shown, raw = service("logs", "-n", "3"), service("logs", "--format", "json")

    assert [line[20:] for line in shown.out.splitlines()] == [
        r"warning no connection\x1b[2J",
        "info    Started.",
        "info    hi\ufffd",
    ]
    assert json.loads(raw.out.splitlines()[0]) == record
    assert machine.calls[0] == [
        "journalctl", "--user-unit", UNIT, "--output=json", "--lines=3",
    ]  # fmt: skip


def test_uninstall_stops_and_removes_the_unit(service: Cli, machine: Machine) -> None:
    service("install")
    done = service("uninstall")

    assert (done.code, done.err) == (0, f"[torvyn] Stopped and removed {UNIT}.\n")
    assert ["systemctl", "--user", "disable", "--now", UNIT] in machine.calls
    assert not (machine.units / UNIT).exists()


def test_uninstall_knows_only_what_is_installed(service: Cli, machine: Machine) -> None:
    done = service("uninstall", "nothing")

    assert done.code == 2
    assert "error[cli.service-unknown]: there is no service `torvyn-nothing.service`" in done.err
