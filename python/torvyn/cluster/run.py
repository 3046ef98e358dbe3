"""`torvyn.cluster.run("Torvyn.toml", "main", on="ray")`: a flow on a cluster, for programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torvyn._link.overrides import Overrides
from torvyn._link.project_linker import ProjectLinker

if TYPE_CHECKING:
    from torvyn.reactor import Statistics


def run(
    path: str | Path = "Torvyn.toml",
    flow: str | None = None,
    *,
    on: str = "ray",
    config: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> Statistics:
    """Runs a flow of a project to its end and returns the statistics of all its groups; raises its
    failure.

    `on` is `ray`, `ray://HOST:PORT` or HOST:PORT. What the groups print appears here. `fresh`
    discards what earlier runs have saved.
    """
    from torvyn.cluster.ray.session import ClusterRequest, open_run

    path = Path(path)
    overrides = Overrides(config=config or {}, settings=settings or {})
    linker = ProjectLinker.open(path / "Torvyn.toml" if path.is_dir() else path, overrides)
    request = ClusterRequest(linker.plan(flow), linker.manifest, overrides, on, is_fresh=fresh)
    with open_run(request) as run:
        end = run.run()
    if end.error is not None:
        raise end.error
    return end.statistics
