"""`torvyn deploy add | list | activate | rollback | gc` on a packed project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from versioned_gateway import pack

from torvyn.cli import app

Deploy = Callable[..., Any]


@pytest.fixture
def deploy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Deploy:
    """Runs a command and returns the document that it prints."""

    def call(*arguments: object, code: int = 0) -> Any:
        words = ["deploy", *map(str, arguments), "--root", str(tmp_path / "root")]
        assert app.run([*words, "--format", "json"]) == code
        out, err = capfd.readouterr()
        return json.loads(out if code == 0 else err)

    return call


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A layout with two versions."""
    for version in ("1.0.0", "2.0.0"):
        pack(tmp_path / "dist", version, tmp_path / "delivered.txt")
    return tmp_path / "dist"


def test_an_added_artifact_becomes_a_generation(deploy: Deploy, dist: Path) -> None:
    added = deploy("add", "gateway", f"oci:{dist}:1.0.0")

    assert (added["number"], added["title"]) == (1, "gateway 1.0.0")
    assert added["state"] == "current (on trial)"


@pytest.mark.promise("edge.remote-updates")
def test_a_generation_is_activated_and_rolled_back(deploy: Deploy, dist: Path) -> None:
    deploy("add", "gateway", f"oci:{dist}:1.0.0")
    deploy("add", "gateway", f"oci:{dist}:2.0.0")
    assert deploy("activate", "gateway")["current"] == 2

    problem = deploy("rollback", "gateway", code=2)["problems"][0]

    # Nothing has run yet, so no generation is known to be good.
    assert problem["code"] == "edge.no-fallback"
    assert deploy("activate", "gateway", 1)["current"] == 1


def test_generations_that_are_not_needed_are_removed(deploy: Deploy, dist: Path) -> None:
    for version in ("1.0.0", "2.0.0", "1.0.0"):
        deploy("add", "gateway", f"oci:{dist}:{version}")

    assert deploy("gc", "gateway", "--keep", "1")["removed"] == [2]
    listed = deploy("list", "gateway")["deployments"][0]
    assert [each["number"] for each in listed["generations"]] == [1, 3]


def test_a_tampered_artifact_is_not_added(deploy: Deploy, dist: Path) -> None:
    blobs = sorted((dist / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    for blob in blobs:
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes().replace(b"sleep", b"SLEEP"))

    problem = deploy("add", "gateway", f"oci:{dist}:1.0.0", code=2)["problems"][0]

    assert problem["code"] == "artifact.digest-mismatch"
    assert deploy("list")["deployments"][0]["generations"] == []


def test_a_generation_cannot_be_changed_by_accident(
    deploy: Deploy, dist: Path, tmp_path: Path
) -> None:
    deploy("add", "gateway", f"oci:{dist}:1.0.0")

    project = tmp_path / "root/gateway/current/project"
    assert {path.stat().st_mode & 0o222 for path in project.rglob("*") if path.is_file()} == {0}


def test_a_deployment_is_installed_as_a_service(
    deploy: Deploy, dist: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    deploy("add", "gateway", f"oci:{dist}:1.0.0")
    words = ["service", "install", "--deployment", "gateway", "--root", str(tmp_path / "root")]

    assert app.run([*words, "--print"]) == 0

    unit = capfd.readouterr().out
    assert f"-m torvyn deploy run gateway --root {tmp_path / 'root'}" in unit
    assert f"WorkingDirectory={tmp_path / 'root/gateway/data'}" in unit
    assert "STATE_DIR" not in unit
