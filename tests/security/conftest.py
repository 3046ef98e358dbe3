"""A guest in C that tries what its input says, in a project with chosen grants."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import torvyn
from torvyn._sandbox.build import build
from torvyn._sandbox.project import GuestProject

HEAD = """
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[[component]]
name = "prober"
path = "prober.wasm"
[flow.main.nodes.asks]
component = "lines"
config = { path = "asked.txt" }
[flow.main.nodes.tries]
component = "prober"
[flow.main.nodes.answers]
component = "file"
config = { path = "answers.txt" }
[[flow.main.edges]]
from = "asks"
to = "tries"
[[flow.main.edges]]
from = "tries"
to = "answers"
"""


@pytest.fixture(scope="session")
def prober(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prober") / "prober"
    shutil.copytree(Path(__file__).parent / "c" / "prober", folder)
    return Path(build(GuestProject("prober", folder, "c")).path)


class Project:
    """A folder with a manifest; `try_` runs the flow and gives what the guest answered."""

    def __init__(self, folder: Path, prober: Path) -> None:
        self.folder = folder
        shutil.copy(prober, folder / "prober.wasm")

    def write(self, grants: list[str], node: str = "", security: str = "") -> Path:
        text = HEAD.replace('component = "prober"\n[flow', f'component = "prober"\n{node}\n[flow')
        text += f'[runtime]\ncache_dir = "{self.folder / "cache"}"\n[security]\n{security}\n'
        text += f"[security.grants.prober]\ncapabilities = {json.dumps(grants)}\n"
        manifest = self.folder / "Torvyn.toml"
        manifest.write_text(text)
        return manifest

    def ask(self, *lines: str) -> None:
        (self.folder / "asked.txt").write_text("\n".join(lines) + "\n")

    def try_(self, *lines: str, grants: list[str], node: str = "", security: str = "") -> Any:
        manifest = self.write(grants, node, security)
        self.ask(*lines)
        (self.folder / "answers.txt").unlink(missing_ok=True)
        flow = torvyn.load(manifest).flow("main")
        flow.run()
        answers = (self.folder / "answers.txt").read_text().splitlines()
        return answers, flow.statistics.nodes["tries"].denied

    def audit(self) -> list[dict[str, Any]]:
        text = (self.folder / "torvyn-audit.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def project(tmp_path: Path, prober: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, prober)
