"""Manifests of flows, made as the command makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes_flows import HEAD, Link, Objects


@pytest.fixture
def link(tmp_path: Path) -> Link:
    """`torvyn link --on kubernetes` in a folder with this manifest."""

    def call(manifest: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "Torvyn.toml").write_text(HEAD + manifest)
        command = [sys.executable, "-m", "torvyn", "link", "--on", "kubernetes", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return call


@pytest.fixture
def objects(link: Link) -> Objects:
    """The objects of the manifests."""

    def call(manifest: str, *options: str) -> list[dict[str, Any]]:
        done = link(manifest, "--image", "registry.example/shop:1", "--format", "json", *options)
        assert done.returncode == 0, done.stderr
        return [item for items in json.loads(done.stdout)["files"].values() for item in items]

    return call
