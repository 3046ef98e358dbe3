"""Coroutines as tests: each runs on a loop of its own. A server with API keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from keyed_server import Keyed

from coroutines import pytest_pyfunc_call  # noqa: F401


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)
