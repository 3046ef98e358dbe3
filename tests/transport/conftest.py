"""Runs coroutines as tests, each on its own loop. A server with API keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from keyed_server import Keyed

from coroutines import pytest_pyfunc_call  # noqa: F401


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a module with `WIRES` run on each of them."""
    if wires := getattr(metafunc.module, "WIRES", ()):
        metafunc.parametrize("wire", wires, indirect=True)


@pytest.fixture(autouse=True)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(request, "param"):
        monkeypatch.setattr("live_server.Served.wire", request.param)


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)
