"""Runs coroutines as tests, each on its own loop. A server with API keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from keyed_server import Keyed

from coroutines import pytest_pyfunc_call  # noqa: F401


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)
