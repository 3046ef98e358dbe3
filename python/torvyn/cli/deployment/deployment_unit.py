"""The systemd unit of a deployment, for `torvyn service install --deployment`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn.cli.supervision import systemctl
from torvyn.cli.supervision.unit import Unit
from torvyn.cli.supervision.unit_options import Installation, unit_fields
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._link.project_linker import ProjectLinker
    from torvyn.edge.generations import Deployment
    from torvyn.edge.generations.settings import DeploymentSettings

_EXCHANGE_S: Final = 15.0
"""For the process around the flows, after the last of them has ended."""


def plan_deployment(
    deployment: Deployment, name: str | None, is_system: bool, options: dict[str, Any]
) -> Installation:
    """Links the current generation, so that one that cannot run is not installed."""
    from torvyn.edge.failures import no_generation

    current = deployment.state().current
    if current is None:
        raise no_generation(deployment.name)
    linker, settings = _linker(deployment, current)
    if settings.command == "serve":
        from torvyn.transport.services import served_plans

        plans = tuple(served_plans(linker).values())
        stop_s = linker.settings["serve.shutdown_grace"]
    else:
        plans = linker.plans_of(None if settings.is_all else settings.flows)
        stop_s = max(plan.stop_limit_s for plan in plans)
    command = [sys.executable, "-m", "torvyn", "deploy", "run", deployment.name]
    command += ["--root", str(deployment.folder.parent), "--format", "json"]
    fields = unit_fields(options, is_system)
    fields["writable"] = (*fields["writable"], deployment.folder) if is_system else ()
    if is_system and fields["user"] is None:
        message = "a deployment needs a user that owns its folder"
        hint = f"name one with --user; it must own {deployment.folder}"
        raise UsageError("cli.bad-usage", message, hint=hint)
    unit = Unit(
        name or deployment.name,
        f"Torvyn deployment {deployment.name}",
        tuple(command),
        deployment.data,
        is_system=is_system,
        stop_s=stop_s + _EXCHANGE_S,
        systemd_version=systemctl.version(),
        **fields,
    )
    return Installation(unit, plans, linker.manifest.variables)


def _linker(deployment: Deployment, number: int) -> tuple[ProjectLinker, DeploymentSettings]:
    from torvyn._link.overrides import Overrides
    from torvyn._link.project_linker import ProjectLinker
    from torvyn.artifact.prepare import is_unpacked, prepare
    from torvyn.edge.generations.settings import DeploymentSettings

    settings = DeploymentSettings.read(deployment.settings_file)
    project = deployment.project(number)
    files = prepare(str(project), Path()).files if is_unpacked(project) else None
    overrides = Overrides(dict(settings.config), dict(settings.settings), packed_files=files)
    return ProjectLinker.open(project / "Torvyn.toml", overrides), settings
