"""A local cluster of the test's own: its folder, its ports, its processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from torvyn._cluster.local_cluster import bring_down
from torvyn._io.local_cluster import state_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where `torvyn cluster` of this test keeps everything; what runs is stopped."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield state_folder()
    bring_down(state_folder())
