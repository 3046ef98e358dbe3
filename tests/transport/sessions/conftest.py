"""Session stores: a file, and a broker that several servers share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture(params=["file", "shared"])
def store(request: pytest.FixtureRequest) -> str:
    """Either kind of store."""
    return str(request.getfixturevalue(request.param))
