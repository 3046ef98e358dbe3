"""A copy of `examples/edge-gateway` for a test: its data, its built components, and a collector."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import torvyn
from torvyn._flow.flow import Flow
from torvyn._sandbox.build import build
from torvyn._sandbox.project import GuestProject
from torvyn.testing import Clock

EXAMPLE = Path(__file__).parents[2] / "examples" / "edge-gateway"
STAGES = ("sensor-source", "anomaly-detector", "data-enricher", "local-aggregator", "uplink-sink")


def module(name: str) -> ModuleType:
    """A program of the example, as a module."""
    spec = importlib.util.spec_from_file_location(f"edge_gateway_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class GatewayProject:
    """The example in `folder`, with the first `rows` readings and a collector at `port`."""

    def __init__(self, folder: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.port = 0
        self.windows_file = folder / "windows.jsonl"
        self.data = folder / "data" / "shuttle.csv"
        module("fetch_data").write_rows(self.data, rows)
        monkeypatch.setenv("READINGS", str(self.data.parent))
        monkeypatch.chdir(folder)

    def use_port(self, port: int) -> None:
        for path in self.folder.glob("*.toml"):
            path.write_text(path.read_text().replace(str(self.port or 8787), str(port)))
        self.port = port

    def flow(
        self, name: str = "main", manifest: str = "Torvyn.toml", clock: Clock | None = None
    ) -> Flow:
        return Flow.from_plan(torvyn.load(self.folder / manifest).plan(name), clock=clock)

    @property
    def labels(self) -> list[int]:
        return [row[-1] for row in self._rows()]

    @property
    def readings(self) -> list[list[int]]:
        return [row[:-1] for row in self._rows()]

    def _rows(self) -> list[list[int]]:
        with self.data.open(encoding="ascii") as lines:
            return [[int(value) for value in row] for row in list(csv.reader(lines))[1:]]

    @property
    def windows(self) -> list[dict[str, Any]]:
        """What the collector stored."""
        return _json_lines(self.windows_file) if self.windows_file.exists() else []

    def scores(self, manifest: str = "Torvyn.toml") -> list[float]:
        """The score of every reading, from the flow `scores`."""
        self.flow("scores", manifest).run()
        readings = _json_lines(self.folder / "scores.jsonl")
        assert [reading["seq"] for reading in readings] == list(range(len(readings)))
        return [reading["score"] for reading in readings]

    def copies_of_the_flow(self, count: int, name: str = "Torvyn.toml") -> list[str]:
        """Adds copies of the flow `main` to the manifest, each with a disk edge; their names."""
        manifest = self.folder / name
        text = manifest.read_text()
        main = text[text.index("[flow.main]") : text.index("[flow.scores]")]
        names = [f"gateway-{number}" for number in range(count)]
        parts = [main.replace("flow.main", f"flow.{name}") for name in names]
        manifest.write_text("\n".join([text, *parts]))
        return names

    def run_until_stored(self, count: int) -> None:
        """Runs the flow in a process, and kills it when so many elements are on the disk."""
        program = Path(__file__).with_name("gateway_outage.py")
        command = [sys.executable, str(program), str(self.folder / "Torvyn.toml"), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "stored\n"
            process.kill()

    @contextmanager
    def collector(self, *options: str) -> Iterator[int]:
        """A collector in a process of its own; gives its port. Leaving kills it, as a power cut
        does: its port and its connections are closed."""
        command = [sys.executable, str(EXAMPLE / "collector.py"), "--file", str(self.windows_file)]
        with subprocess.Popen(
            [*command, "--port", str(self.port), *options], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                self.use_port(int(process.stdout.readline().split()[1].rstrip(",")))
                yield self.port
            finally:
                process.kill()


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def copy_example(folder: Path, language: str) -> Path:
    """Copies the example and builds its components of one language."""
    ignored = shutil.ignore_patterns("build", "*.csv", "*.jsonl", ".torvyn", "__pycache__")
    shutil.copytree(EXAMPLE, folder, ignore=ignored)
    for stage in STAGES:
        build(GuestProject(stage, folder / "components" / language / stage, language))
    return folder


MakeProject = Callable[[int], GatewayProject]
"""Makes a project with that many readings."""
