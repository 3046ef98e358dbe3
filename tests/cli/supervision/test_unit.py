"""The unit of a flow, as systemd itself reads it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import missing
import pytest

from torvyn._cli.systemd import Unit, version

needs_analyze = missing.needs_program("systemd-analyze")
COMMAND = (sys.executable, "-m", "torvyn", "run", "flow.main", "--manifest", "/srv/a b/Torvyn.toml")
USER = Unit("gateway", "Torvyn flow main of gateway", COMMAND, Path("/"), systemd_version=version())
SYSTEM = replace(
    USER,
    is_system=True,
    user="daemon",
    memory_max_bytes=512 * 1024 * 1024,
    cpu_quota_percent=50,
    environment_file=Path("/etc/hostname"),
    writable=(Path("/var/lib/readings"),),
    devices=(Path("/dev/ttyUSB0"),),
    has_state_dir=True,
)


def analyze(unit: Unit, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = folder / unit.file_name
    file.write_text(unit.render())
    command = ["systemd-analyze", *arguments, str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@needs_analyze
@pytest.mark.parametrize("unit", [USER, SYSTEM], ids=["user", "system"])
def test_systemd_finds_nothing_wrong_with_the_unit(unit: Unit, tmp_path: Path) -> None:
    checked = analyze(unit, tmp_path, "verify", "--man=no")

    assert (checked.returncode, checked.stderr) == (0, "")


@needs_analyze
@pytest.mark.parametrize(("devices", "threshold"), [((), "20"), ((Path("/dev/ttyS0"),), "25")])
def test_a_unit_of_the_system_leaves_little_to_reach(
    tmp_path: Path, devices: tuple[Path, ...], threshold: str
) -> None:
    unit = replace(SYSTEM, devices=devices)
    judged = analyze(unit, tmp_path, "security", "--offline=true", f"--threshold={threshold}")

    assert judged.returncode == 0, judged.stdout[-200:]


def test_the_sandbox_may_compile_components() -> None:
    assert "MemoryDenyWriteExecute" not in USER.render() + SYSTEM.render()


def test_special_characters_reach_the_command_as_they_are() -> None:
    unit = replace(USER, command=("/bin/x", "100%", "a b", '"', "$HOME", "back\\slash", ""))

    assert r'ExecStart=/bin/x 100%% "a b" "\"" $$HOME "back\\slash" ""' in unit.render()


def test_a_reload_of_the_service_swaps_what_has_changed() -> None:
    unit = replace(USER, command=("/bin/python", "-m", "torvyn", "run", "flow.main"))

    assert "ExecReload=/bin/python -m torvyn reload $MAINPID --yes\n" in unit.render()


@pytest.mark.parametrize(("known", "steps"), [(252, False), (254, True), (None, True)])
def test_the_delay_between_restarts_grows_where_systemd_can(known: int | None, steps: bool) -> None:
    text = replace(USER, systemd_version=known).render()

    assert ("RestartSteps=6\nRestartMaxDelaySec=60\n" in text) is steps
    assert ("RestartSec=5\n" in text) is not steps
    assert "StartLimitIntervalSec=0\n" in text


@pytest.mark.parametrize(
    ("folder", "value"), [("/srv/gateway", "yes"), ("/home/ann/gateway", "read-only")]
)
def test_a_project_in_a_home_folder_can_be_read(folder: str, value: str) -> None:
    command = ("/opt/torvyn/bin/python", *COMMAND[1:])
    text = replace(SYSTEM, folder=Path(folder), command=command).render()

    assert f"ProtectHome={value}\n" in text
