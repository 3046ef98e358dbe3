"""The audit log: grants at the start, denials as they happen, limited; no control characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import torvyn
from torvyn._sandbox.audit import Audit
from torvyn.errors import MissingError

pytestmark = pytest.mark.timeout(180)

FILE = 'audit = "file"'


@pytest.fixture
def data(project):
    (project.folder / "data").mkdir()
    return project.folder / "data"


@pytest.mark.promise("edge.sandbox")
def test_grants_and_denials_are_written_down(project, data) -> None:
    asked = (f"read {data}/../x", "random")

    project.try_(*asked, grants=["filesystem:read:data"], security=FILE)

    granted, denied, weakened = project.audit()
    assert (granted["decision"], granted["capability"]) == ("granted", f"filesystem:read:{data}")
    assert (denied["decision"], denied["capability"]) == ("denied", "filesystem:read:../x")
    assert (weakened["decision"], weakened["capability"]) == ("weakened", "random:crypto")
    assert {entry["flow"] for entry in project.audit()} == {"main"}
    assert {entry["node"] for entry in project.audit()} == {"tries"}
    assert denied["count"] == 1


def test_a_guest_that_is_denied_without_end_adds_a_few_lines(project, data) -> None:
    asked = [f"read {data}/../x"] * 5000

    _, denied = project.try_(*asked, grants=["filesystem:read:data"], security=FILE)

    entries = [entry for entry in project.audit() if entry["decision"] == "denied"]
    assert denied == {"filesystem:read": 5000}
    # The first 64, then 128, 256, ... 4096.
    assert len(entries) == 64 + 6
    assert entries[-1]["count"] == 4096
    assert entries[-1]["suppressed"] == 2047


def test_output_of_a_guest_cannot_forge_lines_or_move_the_cursor(project, data) -> None:
    forged = f'read {data}/../\x1b[2J\x7f","decision":"granted'

    project.try_(forged, grants=["filesystem:read:data"], security=FILE)

    raw = (project.folder / "torvyn-audit.jsonl").read_bytes()
    assert raw.count(b"\n") == 2
    assert not set(raw) - set(range(0x20, 0x7F)) - {0x0A}
    assert project.audit()[1]["decision"] == "denied"


def test_a_flow_whose_audit_cannot_be_written_does_not_start(project) -> None:
    manifest = project.write([], security='audit = "file"\naudit_file = "nowhere/audit"')
    project.ask("random")

    with pytest.raises(MissingError, match="cannot write the audit file"):
        torvyn.load(manifest).flow("main").run()


def test_the_audit_file_is_for_its_owner_alone(project) -> None:
    project.try_("random", grants=[], security=FILE)

    assert (project.folder / "torvyn-audit.jsonl").stat().st_mode & 0o077 == 0


def test_the_environment_can_ask_for_the_audit(project, monkeypatch) -> None:
    monkeypatch.setenv("TORVYN_SECURITY__AUDIT", "file")

    project.try_("random", grants=["stdio:stdout"])

    assert [entry["decision"] for entry in project.audit()] == ["granted", "weakened"]


def test_statistics_and_the_audit_on_stdout_are_for_programs_too(project, data) -> None:
    project.write(["filesystem:read:data"], security='audit = "stdout"')
    project.ask(f"read {data}/../x")

    command = [sys.executable, "-m", "torvyn", "run", "--stats", "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    *audit, statistics = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [entry["decision"] for entry in audit] == ["granted", "denied"]
    assert statistics["denied"] == 1
    assert statistics["nodes"]["tries"]["denied"] == {"filesystem:read": 1}


@pytest.mark.parametrize("name", ["pipe", "a\0b"])
def test_an_audit_file_that_cannot_be_written_is_an_error_at_once(tmp_path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(MissingError, match="cannot write the audit file"):
        Audit("file", str(tmp_path / name), "main", "1").open()
