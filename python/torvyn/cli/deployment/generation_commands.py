"""`torvyn deploy add | list | activate | rollback | gc`: the generations of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.artifacts.access import check_insecure, insecure_option
from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.deployment.options import (
    existing,
    name_argument,
    refuse_ignored,
    root_folder,
    root_option,
)
from torvyn.cli.screen import Screen
from torvyn.cli.target import check_names
from torvyn.text.control_characters import escape_line

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment, DeploymentState, GenerationRecord


@make_command("add", example="torvyn deploy add gateway ./dist --activate")
@name_argument
@click.argument("artifact", metavar="ARTIFACT")
@click.option("--activate", "is_activated", is_flag=True, help="Make it current at once.")
@click.option(
    "--flow",
    "flows",
    multiple=True,
    metavar="NAME",
    help="A flow to run, if the project has several. Repeatable: they run in one process.",
)
@click.option("--all", "is_all", is_flag=True, help="Run all flows of the project.")
@click.option("--serve", "is_served", is_flag=True, help="Serve its flows, as `torvyn serve` does.")
@insecure_option
@root_option
def add(
    screen: Screen,
    name: str,
    artifact: str,
    is_activated: bool,
    flows: tuple[str, ...],
    is_all: bool,
    is_served: bool,
    insecure: bool,
    root: str | None,
) -> int:
    """Add an artifact as a new generation.

    ARTIFACT is a folder that `torvyn pack` wrote, `oci:FOLDER:TAG`, or `oci://HOST/NAME:TAG`. Its
    digests are verified, and its signatures by the policy of this machine. The first generation of
    a deployment becomes current; later ones wait for `activate`. What to run is kept for later
    generations, until `--flow`, `--all` or `--serve` is given again.
    """
    from dataclasses import replace

    from torvyn.edge.artifact_source import add_artifact
    from torvyn.edge.generations import open_deployment
    from torvyn.edge.generations.settings import DeploymentSettings

    check_names(flows, is_all)
    if is_served:
        # A server serves all flows of its project.
        refuse_ignored("beside `--serve`", ("flows", "is_all"))
    if insecure:
        check_insecure(artifact)
    deployment = open_deployment(root_folder(root), name)
    record, warnings = add_artifact(deployment, artifact, is_insecure=insecure)
    screen.warn(warnings)
    if flows or is_all or is_served:
        settings = DeploymentSettings.read(deployment.settings_file)
        command = "serve" if is_served else "run"
        settings = replace(settings, command=command, flows=flows, is_all=is_all)
        settings.write(deployment.settings_file)
    state = deployment.activate(record.number) if is_activated else deployment.state()
    if screen.is_json:
        screen.document({"deployment": name, **_fields(record, state)})
        return 0
    screen.info(
        f"[torvyn] Added generation {record.number} of `{name}`: {escape_line(record.title)}"
    )
    if state.current != record.number:
        screen.info(f"[torvyn] To run it: `torvyn deploy activate {name} {record.number}`.")
    return 0


@make_command("list", example="torvyn deploy list gateway")
@click.argument("name", required=False, metavar="[NAME]")
@root_option
def list_(screen: Screen, name: str | None, root: str | None) -> int:
    """List the deployments, or the generations of one."""
    from torvyn.edge.generations import deployments

    found = deployments(root_folder(root)) if name is None else [existing(root, name)]
    if screen.is_json:
        screen.document({"deployments": [_deployment_fields(each) for each in found]})
        return 0
    rows = [row for each in found for row in _rows(each)]
    if rows:
        from torvyn.cli.summary import table

        heads = ("deployment", "generation", "state", "project", "version", "digest", "added")
        screen.data(table(heads, rows))
    else:
        screen.info(f"[torvyn] There are no deployments in {root_folder(root)}.")
    return 0


@make_command("activate", example="torvyn deploy activate gateway 3")
@name_argument
@click.argument("number", required=False, type=click.IntRange(min=1), metavar="[NUMBER]")
@root_option
def activate(screen: Screen, name: str, number: int | None, root: str | None) -> int:
    """Make a generation current; by default the newest.

    A running deployment exchanges it within a second. The generation that was current stays as
    the fallback until the new one has been healthy for a minute.
    """
    from torvyn.edge.failures import no_generation

    deployment = existing(root, name)
    newest = max(deployment.records(), default=None)
    if newest is None:
        raise no_generation(name)
    return _show_current(screen, deployment, deployment.activate(number or newest))


@make_command("rollback", example="torvyn deploy rollback gateway")
@name_argument
@root_option
def rollback(screen: Screen, name: str, root: str | None) -> int:
    """Make the previous good generation current."""
    deployment = existing(root, name)
    return _show_current(screen, deployment, deployment.roll_back())


@make_command("gc", example="torvyn deploy gc gateway --keep 2")
@name_argument
@click.option(
    "--keep",
    default=1,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="How many generations to keep besides the current one and its fallback.",
)
@root_option
def gc(screen: Screen, name: str, keep: int, root: str | None) -> int:
    """Remove old generations.

    The current generation and its fallback are never removed.
    """
    removed = existing(root, name).collect(keep)
    if screen.is_json:
        screen.document({"deployment": name, "removed": removed})
    else:
        numbers = ", ".join(map(str, removed)) or "none"
        screen.info(f"[torvyn] Removed generations of `{name}`: {numbers}.")
    return 0


def _show_current(screen: Screen, deployment: Deployment, state: DeploymentState) -> int:
    if screen.is_json:
        screen.document(_deployment_fields(deployment))
    else:
        trial = ", on trial" if state.trying == state.current else ""
        text = f"Generation {state.current} of `{deployment.name}` is current{trial}."
        screen.info(f"[torvyn] {text}")
    return 0


def _deployment_fields(deployment: Deployment) -> dict[str, Any]:
    state = deployment.state()
    records = deployment.records().values()
    return {
        "deployment": deployment.name,
        "folder": str(deployment.folder),
        **{key: getattr(state, key) for key in ("current", "previous", "trying", "attempts")},
        "generations": [_fields(record, state) for record in records],
        "damaged": deployment.damaged(),
        "failed": {digest: failure.reason for digest, failure in state.failed.items()},
        "channel": dict(state.channel) or None,
        "exchange": dict(state.exchange) or None,
    }


def _fields(record: GenerationRecord, state: DeploymentState) -> dict[str, Any]:
    return {**record.to_dict(), "state": _state_of(record, state)}


def _state_of(record: GenerationRecord, state: DeploymentState) -> str:
    """current, previous, good, failed or new; a current one may be on trial."""
    if record.number == state.current:
        return "current (on trial)" if record.number == state.trying else "current"
    if record.number == state.previous:
        return "previous"
    if record.number in state.good:
        return "good"
    return "failed" if record.digest in state.failed else "new"


def _rows(deployment: Deployment) -> list[tuple[str, ...]]:
    state, records = deployment.state(), deployment.records()
    damaged: list[tuple[str, ...]] = [
        (deployment.name, str(number), "damaged", "", "", "", "") for number in deployment.damaged()
    ]
    if not records:
        return [(deployment.name, "none", "", "", "", "", ""), *damaged]
    return damaged + [
        (
            deployment.name,
            str(record.number),
            _state_of(record, state),
            escape_line(record.title),
            "" if record.version is None else str(record.version),
            record.digest.removeprefix("sha256:")[:12],
            record.added[:16].replace("T", " "),
        )
        for record in records.values()
    ]
