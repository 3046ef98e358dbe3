"""Flows with disk edges in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"
