"""Guest files, and manifests that use them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

GUESTS = Path(__file__).parent / "guests"
HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def guest(tmp_path: Path) -> Callable[[str], Path]:
    """A guest in the test's folder, by name."""

    def copy(name: str) -> Path:
        return Path(shutil.copy(GUESTS / f"{name}.wasm", tmp_path))

    return copy


@pytest.fixture
def project(tmp_path: Path, guest: Callable[[str], Path]) -> Callable[..., Path]:
    """A manifest with a chain of nodes, each the text of its table."""

    def write(*nodes: str, extra: str = "") -> Path:
        text = HEAD
        for index, node in enumerate(nodes):
            text += f"[flow.main.nodes.n{index}]\n{node}\n"
        for index in range(len(nodes) - 1):
            text += f'[[flow.main.edges]]\nfrom = "n{index}"\nto = "n{index + 1}"\n'
        for path in GUESTS.glob("*.wasm"):
            guest(path.stem)
        file = tmp_path / "Torvyn.toml"
        file.write_text(text + extra)
        return file

    return write
