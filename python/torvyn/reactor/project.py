"""A project on disk, opened: `torvyn.load("Torvyn.toml").flow("main")`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torvyn.link import load_plan
from torvyn.link.plan import Plan
from torvyn.reactor.flow import Flow


class Project:
    """A manifest whose flows can be made, any number of times."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def plan(self, name: str | None = None, *, config: Mapping[str, str] | None = None) -> Plan:
        """The linked plan of a flow; without a name, of the only one. `config` overrides
        `node.key`."""
        return load_plan(self.path, name, overrides=config)

    def flow(self, name: str | None = None, *, config: Mapping[str, str] | None = None) -> Flow:
        """A new flow, ready to be run."""
        return Flow.from_plan(self.plan(name, config=config))


def load(path: str | Path = "Torvyn.toml") -> Project:
    """Opens a project by its manifest, or by the folder that holds it."""
    path = Path(path)
    return Project(path / "Torvyn.toml" if path.is_dir() else path)
