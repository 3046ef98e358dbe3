"""The options of `torvyn service install`, and the unit that they describe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torvyn.cli.supervision import systemctl
from torvyn.cli.supervision.unit import Unit
from torvyn.cli.target import Target, duration_s, manifest_path
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._link.plan import Plan

Function = TypeVar("Function", bound=Callable[..., Any])


def unit_options(function: Function) -> Function:
    """The options of the unit itself."""
    options = (
        click.option(
            "--user",
            metavar="NAME",
            help="The user of a --system unit; by default one that exists only while it runs.",
        ),
        click.option(
            "--watchdog",
            default="60s",
            show_default=True,
            metavar="DURATION",
            help="Restart the flow if it stands still for this long.",
        ),
        click.option("--memory-max", metavar="SIZE", help="The most memory, such as 512MiB."),
        click.option(
            "--cpu-quota",
            type=click.IntRange(min=1),
            metavar="PERCENT",
            help="The most CPU time, in percent of one CPU.",
        ),
        click.option(
            "--environment-file",
            metavar="FILE",
            help="A file with the variables that the manifest uses, as NAME=VALUE lines.",
        ),
        click.option(
            "--writable",
            multiple=True,
            metavar="FOLDER",
            help="A folder that a --system unit may write to. Repeatable.",
        ),
        click.option(
            "--device",
            "devices",
            multiple=True,
            metavar="PATH",
            help="A device that a --system unit may use, such as /dev/ttyUSB0. Repeatable.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(frozen=True)
class Installation:
    """A unit, and what must be known before it is installed."""

    unit: Unit
    plans: tuple[Plan, ...]
    variables: frozenset[str]
    """The environment variables that the manifest uses."""


def plan_installation(
    target: Target,
    arguments: dict[str, tuple[str, ...]],
    name: str | None,
    is_system: bool,
    options: dict[str, Any],
) -> Installation:
    """Links the flows, so that one that cannot run is not installed, and describes their unit."""
    from torvyn._manifest.setting_records import RUNTIME

    linker = target.linker()
    plans = linker.plans_of(None if target.is_all else target.flows)
    names = [plan.name for plan in plans]
    project = linker.manifest.project.name
    manifest = Path(target.manifest).resolve()
    command = [sys.executable, "-m", "torvyn", "run"]
    command += ["--all"] if target.is_all else [f"flow.{name}" for name in names]
    command += ["--manifest", str(manifest), "--format", "json"]
    for option, values in arguments.items():
        command += [word for value in values for word in (option, value)]
    unit = Unit(
        name or unit_name(project, names, len(linker.manifest.flows)),
        f"Torvyn flow{'' if len(names) == 1 else 's'} {', '.join(names)} of {project}",
        tuple(command),
        manifest.parent,
        is_system=is_system,
        stop_s=max(plan.stop_limit_s for plan in plans),
        has_state_dir="state_dir" in RUNTIME.by_name,
        systemd_version=systemctl.version(),
        **unit_fields(options, is_system),
    )
    return Installation(unit, plans, linker.manifest.variables)


def possible_names(manifest: str) -> list[str]:
    """The names that units of the project in a folder may have: of all its flows, of each."""
    from torvyn._link.project_linker import ProjectLinker

    path = manifest_path(manifest)
    if not path.exists():
        message = f"there is no {path}, and you did not name the service"
        hint = "name it, or run the command in the folder of its project"
        raise UsageError("cli.bad-usage", message, hint=hint)
    found = ProjectLinker.open(path).manifest
    flows = [*found.flows]
    project = found.project.name
    return [unit_name(project, names, len(flows)) for names in (flows, *([name] for name in flows))]


def unit_name(project: str, names: Sequence[str], flows: int) -> str:
    """The project's name for all its flows, else with those of the flows."""
    return project if len(names) == flows else "-".join((project, *names))


def unit_fields(options: dict[str, Any], is_system: bool) -> dict[str, Any]:
    for option in ("user", "writable", "devices"):
        if options[option] and not is_system:
            flag = "--device" if option == "devices" else f"--{option}"
            message = f"`{flag}` is for a unit of the system"
            hint = "add --system; a unit of a user has that user's rights"
            raise UsageError("cli.bad-usage", message, hint=hint)
    file = options["environment_file"]
    return {
        "user": options["user"],
        "watchdog_s": duration_s("--watchdog", options["watchdog"]),
        "memory_max_bytes": _size_bytes("--memory-max", options["memory_max"]),
        "cpu_quota_percent": options["cpu_quota"],
        "environment_file": None if file is None else Path(file).resolve(),
        "writable": tuple(Path(path).resolve() for path in options["writable"]),
        "devices": tuple(Path(path) for path in options["devices"]),
    }


def _size_bytes(option: str, text: str | None) -> int | None:
    from torvyn._contract.units import parse_size_bytes

    try:
        return None if text is None else parse_size_bytes(text)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`{option}`: {error}") from None
