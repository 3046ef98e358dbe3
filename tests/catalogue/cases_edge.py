"""One provocation for each code of deployments."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import COMPONENT, ImageManifest
from torvyn.edge.artifact_source import add_from_layout
from torvyn.edge.generations import Deployment, find_deployment, open_deployment


def _deployment(folder: Path) -> Deployment:
    def fill(project: Path) -> None:
        project.mkdir()
        (project / "Torvyn.toml").write_text("")

    deployment = Deployment(folder / "gateway")
    deployment.add(fill, "sha256:" + "0" * 64, "test", version=1)
    return deployment


def _in_use(folder: Path) -> None:
    deployment = _deployment(folder)
    with (deployment.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with mock.patch("torvyn.edge.generations.deployment._LOCK_WAIT_S", 0.0):
            deployment.activate(1)


def _unwritable(folder: Path) -> None:
    (folder / "gateway").write_text("")
    Deployment(folder / "gateway").create()


def _damaged(folder: Path) -> None:
    deployment = _deployment(folder)
    (deployment.path(1) / "generation.json").write_text("")
    deployment.activate(1)


def _barred(folder: Path) -> None:
    deployment = _deployment(folder)
    state = json.loads((deployment.folder / "state.json").read_text())
    (deployment.folder / "state.json").write_text(json.dumps({**state, "min_version": 2}))
    deployment.activate(1)


def _component(folder: Path) -> None:
    layout = Layout.create(folder / "layout")
    descriptor = layout.add_manifest(ImageManifest(COMPONENT, ()), "latest")
    add_from_layout(Deployment(folder / "gateway"), layout, descriptor, "test")


CASES: dict[str, Callable[[Path], Any]] = {
    "edge.bad-name": lambda folder: open_deployment(folder, "../etc"),
    "edge.damaged": _damaged,
    "edge.deployment-unknown": lambda folder: find_deployment(folder, "gateway"),
    "edge.disk-failed": _unwritable,
    "edge.generation-unknown": lambda folder: _deployment(folder).activate(7),
    "edge.in-use": _in_use,
    "edge.no-fallback": lambda folder: _deployment(folder).roll_back(),
    "edge.no-generation": lambda folder: Deployment(folder / "gateway").start(),
    "edge.not-a-project": _component,
    "edge.version-barred": _barred,
}
