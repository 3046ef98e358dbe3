"""A small gateway in several versions: it numbers its readings, and stamps them with its version.

Its readings wait on disk for a sink that appends them to a file, so that a test can tell which
version delivered which reading, and whether any is missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, TITLE, Descriptor, ImageManifest
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.update import add_from_layout

MANIFEST = """
[torvyn]
name = "gateway"
version = "{version}"
contract_version = "0.1.0"

[[component]]
name = "parts"
path = "parts"
entry = "component:Readings"

[[component]]
name = "deliver"
path = "parts"
entry = "component:Deliver"

[flow.main]
checkpoint = "20ms"

[flow.main.nodes.readings]
component = "parts"

[flow.main.nodes.uplink]
component = "deliver"
on_error = "{on_error}"
config = {{ path = "{output}", version = "{version}" }}

[[flow.main.edges]]
from = "readings"
to = "uplink"
carrier = "disk"
"""
SECOND_NODE = """
[flow.main.nodes.copy]
component = "deliver"
config = {{ path = "{}", version = "copy" }}

[[flow.main.edges]]
from = "readings"
to = "copy"
carrier = "disk"
"""
"""A second sink behind the readings, for a file."""
PARTS = """
import json
import time

import torvyn


class Readings(torvyn.Source):
    run = "thread"

    def __init__(self):
        super().__init__()
        self.next = 0

    def init(self, config):
        {init}

    def pull(self):
        time.sleep({pace_s})
        self.next += 1
        return str(self.next - 1)

    def snapshot(self):
        return str(self.next).encode()

    def restore(self, state):
        {restore}
        self.next = int(state)


class Deliver(torvyn.Sink):
    def init(self, config):
        {open}
        self.version = config["version"]
        self.file = open(config["path"], "a", buffering=1)

    def push(self, element):
        {push}
        self.file.write(f"{{element.text}} {{self.version}}\\n")
"""


def pack(
    folder: Path,
    version: str,
    output: Path,
    *,
    init: str = "pass",
    open: str = "pass",
    push: str = "pass",
    restore: str = "pass",
    pace_s: float = 0.005,
    on_error: str = "fail-fast",
    extra: str = "",
    files: Mapping[str, str] | None = None,
) -> tuple[Layout, Descriptor]:
    """The layout in the folder, with this version of the gateway."""
    manifest = MANIFEST.format(version=version, output=output, on_error=on_error) + extra
    parts = PARTS.format(init=init, open=open, push=push, restore=restore, pace_s=pace_s)
    files = {"Torvyn.toml": manifest, "parts/component.py": parts, **(files or {})}
    layout = Layout.create(folder)
    layers = tuple(
        layout.add("text/plain", text.encode(), {TITLE: path}) for path, text in files.items()
    )
    annotations = {TITLE: "gateway", "org.opencontainers.image.version": version}
    return layout, layout.add_manifest(ImageManifest(PROJECT, layers, annotations), version)


def add(deployment: Deployment, version: str, output: Path, **parts: Any) -> int:
    """Adds a version as the next generation; returns its number."""
    layout, descriptor = pack(deployment.folder.parent / "dist", version, output, **parts)
    return add_from_layout(deployment, layout, descriptor, "dist").number


def delivered(output: Path) -> list[tuple[int, str]]:
    """The readings with the versions that delivered them."""
    if not output.exists():
        return []
    lines = output.read_text().splitlines(keepends=True)
    complete = [line.split() for line in lines if line.endswith("\n")]
    return [(int(number), version) for number, version in complete]


def lost(output: Path) -> list[int]:
    """Readings that are missing between the first and the last."""
    seen = Counter(number for number, _ in delivered(output))
    return [number for number in range(max(seen, default=-1) + 1) if number not in seen]


def killing(which: str, marker: Path) -> str:
    """Code for a part that kills its process (`getpid`) or the one that runs it (`getppid`), but
    only once."""
    kill = f"os.kill(os.{which}(), 9)"
    return f"import os; os.path.exists({str(marker)!r}) or (open({str(marker)!r}, 'x'), {kill})"


def state_of(folder: Path) -> dict[str, object]:
    state: dict[str, object] = json.loads((folder / "state.json").read_text())
    return state
