"""`torvyn deploy run`: runs the current generation, and exchanges it when that changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.deployment.options import existing, name_argument, root_option
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s

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
@click.option(
    "--exchange",
    type=click.Choice(("auto", "process")),
    help="How a new generation replaces the old one: `auto` swaps components where it can, "
    "`process` always starts a new process. By default as the deployment is set.",
)
@click.option(
    "--verify",
    type=click.Choice(("boot", "start", "off")),
    help="When the files of a generation are compared with their digests: once per `boot` of the "
    "machine as long as they look the same, at each `start`, or never. By default as the "
    "deployment is set.",
)
@root_option
def run(
    screen: Screen,
    name: str,
    health_period: str | None,
    exchange: str | None,
    verify: str | None,
    root: str | None,
) -> int:
    """Run the current generation of a deployment.

    When another generation becomes current, it is loaded and checked beside the old one. Then the
    components that have changed are swapped while the flow runs. What cannot be swapped is
    exchanged with the process: the old one drains and saves its state, and the new one continues
    there. The log says which way was taken, and why. A generation that does not start, crashes
    twice or becomes unhealthy is given up, and the fallback comes back; so does it in place of a
    generation whose files have changed. A deployment that follows a channel looks for new versions
    meanwhile.

    Several flows share a generation and a process. If one fails, the others drain, and all of them
    start again.
    """
    from torvyn.cli.deployment.companions import companions
    from torvyn.cli.deployment.generation_arguments import generation_command
    from torvyn.cli.supervision.running_flows import statuses_of
    from torvyn.edge.generations.settings import DeploymentSettings
    from torvyn.edge.running import DeploymentRun, RunOptions
    from torvyn.observe.logs import show_logs

    deployment = existing(root, name)
    settings = DeploymentSettings.read(deployment.settings_file)
    health_s = settings.health_s
    if health_period is not None:
        health_s = duration_s("--health-period", health_period)
    options = RunOptions(
        command=lambda record: generation_command(deployment, settings, record, screen.format),
        ask=statuses_of if settings.command == "run" else _ask_server,
        exchange=_exchange if (exchange or settings.exchange) == "auto" else None,
        verify=verify or settings.verify,
        health_s=health_s,
        is_lasting=settings.follow is not None,
    )
    deployment_run = DeploymentRun(deployment, options)
    with (
        show_logs(screen.format, min(screen.log_level, 20), frozenset()),
        companions(deployment, settings, deployment_run),
    ):
        return deployment_run.run()


def _exchange(pid: int, request: Mapping[str, Any]) -> Mapping[str, Any]:
    from torvyn.cli.supervision.control_socket import request as send
    from torvyn.cli.supervision.running_flows import control_socket_of

    return send(control_socket_of(pid), "exchange", **request)


def _ask_server(pid: int) -> list[Mapping[str, Any]]:
    from torvyn.cli.supervision.control_socket import request as send
    from torvyn.cli.supervision.running_flows import control_socket_of

    try:
        return [send(control_socket_of(pid), "status")]
    except (OSError, ValueError):
        return []
