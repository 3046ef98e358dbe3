"""`torvyn.load("Torvyn.toml").flow("main")`: the flows of a project on disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from torvyn._flow.flow import Flow
from torvyn._link.overrides import Overrides
from torvyn._link.plan import Plan
from torvyn._link.project_linker import ProjectLinker

logger = logging.getLogger("torvyn.link")


class Project:
    """A manifest. It makes its flows any number of times."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def plan(
        self,
        name: str | None = None,
        *,
        config: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        segments: Sequence[str] = (),
        replica: int = 0,
        run: str = "",
    ) -> Plan:
        """The linked plan of a flow; without a name, of the only one.

        `config` overrides options of nodes, such as `{"filter.words": "secret"}`, and `settings`
        those of the project, such as `{"cluster.nats": "nats://10.0.0.2:4222"}`. With `segments`,
        only these parts of the flow run in this process, as replica number `replica`. A segment
        that has ended in the run with this name does not begin anew: it raises `broker.run-over`.
        Warnings go to the log.
        """
        overrides = Overrides(
            config=config or {},
            settings=settings or {},
            segments=tuple(segments),
            replica=replica,
            run=run,
        )
        plan = ProjectLinker.open(self.path, overrides).plan(name)
        for warning in plan.warnings:
            logger.warning("%s (%s)", warning.message, warning.location)
        return plan

    def flow(
        self,
        name: str | None = None,
        *,
        config: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        segments: Sequence[str] = (),
        replica: int = 0,
        run: str = "",
    ) -> Flow:
        """A new flow, ready to run; the arguments are those of `plan`."""
        plan = self.plan(
            name, config=config, settings=settings, segments=segments, replica=replica, run=run
        )
        return Flow.from_plan(plan)


def load(path: str | Path = "Torvyn.toml") -> Project:
    """Opens a project by its manifest, or by the folder of the manifest."""
    path = Path(path)
    return Project(path / "Torvyn.toml" if path.is_dir() else path)
