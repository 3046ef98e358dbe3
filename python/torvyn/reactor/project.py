"""`torvyn.load("Torvyn.toml").flow("main")`: the flows of a project on disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from torvyn.link import Overrides, Plan, ProjectLinker
from torvyn.reactor.flow import Flow

logger = logging.getLogger("torvyn.link")


class Project:
    """A manifest. It makes its flows any number of times."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def plan(self, name: str | None = None, *, config: Mapping[str, str] | None = None) -> Plan:
        """The linked plan of a flow; without a name, of the only one.

        `config` overrides options of nodes, such as `{"filter.words": "secret"}`. Warnings go to
        the log.
        """
        plan = ProjectLinker.open(self.path, Overrides(config=config or {})).plan(name)
        for warning in plan.warnings:
            logger.warning("%s (%s)", warning.message, warning.location)
        return plan

    def flow(self, name: str | None = None, *, config: Mapping[str, str] | None = None) -> Flow:
        """A new flow, ready to run."""
        return Flow.from_plan(self.plan(name, config=config))


def load(path: str | Path = "Torvyn.toml") -> Project:
    """Opens a project by its manifest, or by the folder of the manifest."""
    path = Path(path)
    return Project(path / "Torvyn.toml" if path.is_dir() else path)
