"""`torvyn service`: runs a flow as a service of systemd."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.deploy_options import existing, root_option
from torvyn._cli.screen import Screen
from torvyn._cli.systemd import unit_options
from torvyn._cli.target import Target, flows_options, manifest_option, show_plans
from torvyn.errors import UsageError, os_reason

if TYPE_CHECKING:
    from torvyn._cli.systemd import Installation, Systemd

NOT_RUNNING: Final = 3
"""The exit code of `status` for a service that does not run, as systemctl has it."""

EPILOG: Final = """\b
Examples:
  torvyn service install --memory-max 256MiB
  torvyn service status
  torvyn service logs --follow
"""

system_option = click.option(
    "--system", "is_system", is_flag=True, help="Use the units of the system; needs root."
)
name_argument = click.argument("name", required=False, metavar="[NAME]")


@command_group("service", epilog=EPILOG)
def command() -> None:
    """Run a flow as a service of systemd.

    systemd starts the flow at boot, and restarts it when it fails or stands still. By default the
    service belongs to you; with --system it belongs to the machine and runs as an ordinary user.
    The service is named after the project, and after its flows if it does not run all of them.
    """


@make_command("install", example="torvyn service install flow.main --memory-max 256MiB")
@flows_options
@click.option("--name", metavar="NAME", help="The name of the service.")
@click.option(
    "--deployment",
    metavar="NAME",
    help="Run this deployment, with its updates; see `torvyn deploy`.",
)
@root_option
@system_option
@unit_options
@click.option("--print", "is_printed", is_flag=True, help="Print the unit and install nothing.")
@click.option("--no-start", is_flag=True, help="Start it at the next boot, not now.")
def install(
    screen: Screen,
    name: str | None,
    deployment: str | None,
    root: str | None,
    is_system: bool,
    is_printed: bool,
    no_start: bool,
    flows: tuple[str, ...],
    flow_name: str | None,
    is_all: bool,
    manifest: str,
    overrides: tuple[str, ...],
    settings: tuple[str, ...],
    **options: Any,
) -> int:
    """Install a flow, or several, as a service and start it.

    Installing again replaces the unit and restarts the service. The flow is linked first: one that
    cannot run is not installed. A relative path in the manifest is relative to its folder. If one
    of several flows fails, the others drain, and systemd starts all of them again.
    """
    from torvyn._cli.systemd import Systemd, plan_deployment, plan_installation

    target = Target.of(
        flows=flows,
        flow_name=flow_name,
        is_all=is_all,
        manifest=manifest,
        overrides=overrides,
        settings=settings,
    )
    if target.artifact is not None:
        message = "a service cannot run an artifact directly"
        hint = "run `torvyn run` with the artifact, or install the service in a project's folder"
        raise UsageError("cli.bad-usage", message, hint=hint)
    if deployment is not None:
        made = plan_deployment(existing(root, deployment), name, is_system, options)
    else:
        arguments = {"--config": overrides, "--set": settings}
        made = plan_installation(target, arguments, name, is_system, options)
    show_plans(screen, made.plans)
    systemd = Systemd(is_system)
    if is_printed:
        _print(screen, made, systemd)
        return 0
    systemd.require()
    _install(screen, made, systemd, no_start)
    return 0


def _print(screen: Screen, made: Installation, systemd: Systemd) -> None:
    unit = made.unit
    path = systemd.unit_folder / unit.file_name
    if screen.is_json:
        screen.document({"unit": unit.file_name, "path": str(path), "text": unit.render()})
    else:
        screen.data(unit.render())


def _install(screen: Screen, made: Installation, systemd: Systemd, no_start: bool) -> None:
    unit, path = made.unit, systemd.unit_folder / made.unit.file_name
    _write(path, unit.render())
    systemd.control("daemon-reload")
    systemd.control("enable", unit.file_name)
    if not no_start:
        systemd.control("restart", unit.file_name)
    if screen.is_json:
        screen.document({"unit": unit.file_name, "path": str(path), "started": not no_start})
        return
    state = "Installed" if no_start else "Installed and started"
    screen.info(f"[torvyn] {state} {unit.file_name} ({path}).")
    for hint in _hints(made, systemd):
        screen.info(f"[torvyn] {hint}")


def _hints(made: Installation, systemd: Systemd) -> list[str]:
    hints = []
    if made.variables and made.unit.environment_file is None:
        names = ", ".join(sorted(made.variables))
        hints.append(f"The manifest uses {names}: put them into a file, for --environment-file.")
    if systemd.ends_at_logout():
        hints.append("It ends when you log out. To keep it: `loginctl enable-linger`.")
    return hints


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        reason = os_reason(error)
        hint = "run it as root for --system" if os.geteuid() else None
        message = f"cannot write `{path}`: {reason}"
        raise UsageError("cli.file-unwritable", message, hint=hint) from error


@make_command("status", example="torvyn service status --format json")
@name_argument
@manifest_option
@system_option
def status(screen: Screen, name: str | None, manifest: str, is_system: bool) -> int:
    """Show whether a service runs, and how its flow does.

    The exit code is 0 if it runs, and 3 if it does not.
    """
    from torvyn._cli.service_status import render_status, status_fields

    systemd, unit = _existing(name, manifest, is_system)
    fields = status_fields(unit, systemd.properties(unit))
    if screen.is_json:
        screen.document(fields)
    else:
        screen.data(render_status(fields))
    return 0 if fields["active"] == "active" else NOT_RUNNING


@make_command("logs", example="torvyn service logs --follow")
@name_argument
@manifest_option
@system_option
@click.option(
    "-n",
    "--lines",
    default=100,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="How many of the last lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new lines, until Ctrl-C.")
def logs(
    screen: Screen, name: str | None, manifest: str, is_system: bool, lines: int, follow: bool
) -> int:
    """Show the log of a service, from the journal.

    With `--format json`, each line is a JSON object as the flow wrote it.
    """
    from torvyn._cli.journal import render_entry

    systemd, unit = _existing(name, manifest, is_system)
    with systemd.journal(unit, lines, follow) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                screen.data(render_entry(line, screen.is_json))
        except KeyboardInterrupt:
            process.terminate()
            return 130
    return process.returncode


@make_command("uninstall", example="torvyn service uninstall")
@name_argument
@manifest_option
@system_option
def uninstall(screen: Screen, name: str | None, manifest: str, is_system: bool) -> int:
    """Stop a service and remove its unit.

    What it stored stays: its checkpoints and its undelivered elements.
    """
    systemd, unit = _existing(name, manifest, is_system)
    path = _unit_file(systemd, unit)
    systemd.control("disable", "--now", unit)
    path.unlink()
    systemd.control("daemon-reload")
    if screen.is_json:
        screen.document({"unit": unit, "path": str(path), "removed": True})
    else:
        screen.info(f"[torvyn] Stopped and removed {unit}.")
    return 0


def _unit_file(systemd: Systemd, unit: str) -> Path:
    path = systemd.unit_folder / unit
    if not path.exists():
        hint = f"the units are in {systemd.unit_folder}"
        raise UsageError("cli.service-unknown", f"there is no service `{unit}`", hint=hint)
    return path


def _existing(name: str | None, manifest: str, is_system: bool) -> tuple[Systemd, str]:
    """systemd, and the file name of the unit."""
    from torvyn._cli.systemd import PREFIX, Systemd, possible_names

    systemd = Systemd(is_system)
    systemd.require()
    names = [name] if name else possible_names(manifest)
    units = [
        f"{PREFIX}{each.removeprefix(PREFIX).removesuffix('.service')}.service" for each in names
    ]
    installed = (unit for unit in units if (systemd.unit_folder / unit).exists())
    return systemd, next(installed, units[0])


for subcommand in (install, status, logs, uninstall):
    command.add_command(subcommand)
