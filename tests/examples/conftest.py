"""Copies of `examples/edge-gateway`, whose components are built once per run of the tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gateway_project import GatewayProject, MakeProject, copy_example


@pytest.fixture(scope="session")
def example_in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_example(tmp_path_factory.mktemp("c") / "edge-gateway", "c")


@pytest.fixture(scope="session")
def example_in_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_example(tmp_path_factory.mktemp("python") / "edge-gateway", "python")


@pytest.fixture
def gateway(tmp_path: Path, example_in_c: Path, monkeypatch: pytest.MonkeyPatch) -> MakeProject:
    """The project with its components in C."""
    folder = tmp_path / "edge-gateway"
    shutil.copytree(example_in_c, folder)
    return lambda rows: GatewayProject(folder, rows, monkeypatch)
