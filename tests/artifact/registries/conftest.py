"""Registries, layouts and options for tests of registries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from registry_artifacts import ALLOW, QUICK
from registry_servers import RegistryServer, require, running

from torvyn._artifact.fetch import FetchOptions
from torvyn._artifact.layout import Layout


@pytest.fixture(scope="session", params=["docker-registry", "olareg"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RegistryServer]:
    """Each of the registries."""
    require(request.param)
    with running(request.param, tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture
def repository(server: RegistryServer, request: pytest.FixtureRequest) -> str:
    """A repository of its own for each test."""
    return f"oci://{server.host}/tests/r{abs(hash(request.node.nodeid))}"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.create(tmp_path / "dist")


@pytest.fixture
def options(tmp_path: Path) -> FetchOptions:
    return FetchOptions(ALLOW, tmp_path / "cache", limits=QUICK)
