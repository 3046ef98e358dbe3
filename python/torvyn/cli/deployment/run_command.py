"""`torvyn deploy run`: runs the current generation, and exchanges it when that changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.deployment.options import existing, name_argument, root_option
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment, GenerationRecord
    from torvyn.edge.generations.settings import DeploymentSettings

EXAMPLE = """\
torvyn deploy run gateway
torvyn deploy run gateway --health-period 5m"""


@make_command("run", example=EXAMPLE)
@name_argument
@click.option(
    "--health-period",
    metavar="DURATION",
    help="How long a new generation must be healthy before it is good; by default 60s.",
)
@root_option
def run(screen: Screen, name: str, health_period: str | None, root: str | None) -> int:
    """Run the current generation of a deployment.

    When another generation becomes current, it is loaded beside the old one; then the old one
    drains and saves its state, and the new one continues there. A generation that does not start,
    crashes twice or becomes unhealthy is given up, and the fallback comes back. A deployment that
    follows a channel looks for new versions meanwhile.
    """
    from torvyn.cli.deployment.companions import companions
    from torvyn.edge.generations.settings import DeploymentSettings
    from torvyn.edge.running import DeploymentRun, RunOptions
    from torvyn.observe.logs import show_logs

    deployment = existing(root, name)
    settings = DeploymentSettings.read(deployment.settings_file)
    health_s = settings.health_s
    if health_period is not None:
        health_s = duration_s("--health-period", health_period)
    options = RunOptions(
        command=lambda record: _command(deployment, settings, record, screen.format),
        ask=_ask,
        health_s=health_s,
        is_lasting=settings.follow is not None,
    )
    deployment_run = DeploymentRun(deployment, options)
    with (
        show_logs(screen.format, min(screen.log_level, 20), frozenset()),
        companions(deployment, settings, deployment_run),
    ):
        return deployment_run.run()


def _command(
    deployment: Deployment, settings: DeploymentSettings, record: GenerationRecord, format: str
) -> list[str]:
    command = [sys.executable, "-m", "torvyn", "run"]
    command += [f"flow.{settings.flow}"] if settings.flow else []
    command += ["--manifest", str(deployment.manifest(record.number)), "--format", format]
    for option, pairs in (("--config", settings.config), ("--set", settings.settings)):
        command += [word for key, value in pairs.items() for word in (option, f"{key}={value}")]
    # Stored elements and checkpoints stay when the generation goes.
    return [*command, "--set", f"runtime.state_dir={deployment.data}"]


def _ask(pid: int) -> Mapping[str, Any] | None:
    from torvyn.cli.supervision.running_flows import ask
    from torvyn.cli.supervision.unix_server import own_folder

    return ask(own_folder() / f"{pid}.sock")
