"""`torvyn deploy`: runs, exchanges and updates projects on a gateway.

The subcommands are for its generations (add, list, activate, rollback, gc), for running the current
one, and for its channel (follow, update, channel).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from torvyn._cli.artifact_options import check_insecure, insecure_option
from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.commands.channel import command as channel
from torvyn._cli.deploy_options import (
    existing,
    name_argument,
    named_keys,
    refuse_ignored,
    root_folder,
    root_option,
    threshold_option,
)
from torvyn._cli.screen import Screen
from torvyn._cli.target import check_names, duration_s
from torvyn._io.safe_text import escape_line
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._deploy.deployment import Deployment
    from torvyn._deploy.generation_state import DeploymentState, GenerationRecord
    from torvyn._deploy.publication import KeySet
    from torvyn._deploy.settings import DeploymentSettings
    from torvyn._deploy.trust import ChannelTrust
    from torvyn._deploy.update import Updater, UpdateResult


EPILOG: Final = """\b
Examples:
  torvyn deploy add gateway ./dist
  torvyn deploy run gateway
  torvyn deploy list gateway
  torvyn deploy rollback gateway
  torvyn deploy follow gateway https://updates.example.com/channel.json --key release.pub
"""


@command_group("deploy", epilog=EPILOG)
def command() -> None:
    """Run, exchange and update projects on a gateway.

    A deployment is a folder of generations: packed projects that never change. One of them is
    current. A new one is on trial until it has been healthy for a while; if it fails, the one
    before comes back. No command needs a network, except where you name a registry.
    """


FOLLOW_EXAMPLE = """\
torvyn deploy follow gateway https://updates.example.com/channel.json --key release.pub
torvyn deploy follow gateway /media/stick/channel.json --key release.pub
torvyn deploy follow gateway https://updates.example.com/channel.json --key new.pub --replace-keys
torvyn deploy follow gateway --stop"""

_NOT_WITH_STOP = (
    "source", "keys", "threshold", "replace_keys", "channel", "artifact", "interval", "heartbeat",
    "device", "insecure",
)  # fmt: skip


@make_command("follow", example=FOLLOW_EXAMPLE)
@name_argument
@click.argument("source", required=False, metavar="[SOURCE]")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="FILE",
    help="A public key that may sign the channel. Repeatable. A channel that is known needs none.",
)
@threshold_option("How many of the keys must have signed.")
@click.option(
    "--replace-keys",
    is_flag=True,
    help="Trust these keys and no others from now on.",
)
@click.option(
    "--channel", default="stable", show_default=True, metavar="NAME", help="Its name, as signed."
)
@click.option(
    "--artifact", default="", metavar="NAME", help="The artifact, if the channel has several."
)
@click.option(
    "--interval",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="How often to look; each device adds some jitter.",
)
@click.option("--heartbeat", metavar="URL", help="Post reports to this address.")
@click.option("--device", metavar="NAME", help="The name of this machine; by default its host.")
@insecure_option
@click.option("--stop", is_flag=True, help="Stop following.")
@root_option
def follow(screen: Screen, name: str, source: str | None, root: str | None, **options: Any) -> int:
    """Let a deployment follow a signed channel.

    SOURCE is a file, an `http(s)://` address, or `oci://HOST/NAME:TAG`. A running deployment must
    be restarted once; from then on it looks for new versions by itself. What the channel offers is
    used only if the keys have signed it. Once something was accepted, the channel changes its keys
    itself (`torvyn deploy channel rotate`); you replace them with `--replace-keys`.
    """
    from torvyn._deploy.deployment import open_deployment
    from torvyn._deploy.settings import DeploymentSettings

    if options["stop"]:
        refuse_ignored("beside `--stop`", _NOT_WITH_STOP)
        deployment = existing(root, name)
        settings = replace(DeploymentSettings.read(deployment.settings_file), follow=None)
        settings.write(deployment.settings_file)
        return _show_following(screen, name, settings, None)
    deployment = open_deployment(root_folder(root), name)
    trust = _wanted_trust(deployment, options)
    settings = _following(DeploymentSettings.read(deployment.settings_file), source, trust, options)
    deployment.create()
    if options["replace_keys"]:
        # Before the settings: the running deployment trusts what the state says.
        pinned = trust.to_dict()
        deployment.change(lambda state, records: state.accept(trust.channel, pinned))
    settings.write(deployment.settings_file)
    return _show_following(screen, name, settings, trust.keys)


def _show_following(
    screen: Screen, name: str, settings: DeploymentSettings, keys: KeySet | None
) -> int:
    if screen.is_json:
        ids = {} if keys is None else {"trusted_keys": sorted(key.id for key in keys.keys)}
        screen.document({"deployment": name, **asdict(settings), **ids})
    elif settings.follow is None:
        screen.info(f"[torvyn] `{name}` follows no channel any more.")
    else:
        screen.info(f"[torvyn] `{name}` follows {settings.follow.source}.")
        screen.info(f"[torvyn] Each version must be signed by {keys}.")
        screen.info(f"[torvyn] To look for an update now: `torvyn deploy update {name}`.")
    return 0


def _wanted_trust(deployment: Deployment, options: dict[str, Any]) -> ChannelTrust:
    """What is trusted from now on. Other keys than those that are trusted already are refused,
    unless the command line says that they replace them."""
    from torvyn._deploy.trust import ChannelTrust
    from torvyn._deploy.update import accepted_trust

    trust = accepted_trust(deployment.state(), options["channel"])
    if not options["keys"]:
        refuse_ignored("without `--key`", ("threshold", "replace_keys"))
        if trust is None:
            raise _needs_keys()
        return trust
    keys = named_keys(options["keys"], options["threshold"])
    if trust is None:
        return ChannelTrust(options["channel"], keys)
    return trust.pinned(keys, may_replace=options["replace_keys"])


def _needs_keys() -> UsageError:
    message = "a channel needs its source and at least one `--key`"
    hint = "for example `torvyn deploy follow gateway channel.json --key release.pub`"
    return UsageError("cli.bad-usage", message, hint=hint)


def _following(
    settings: DeploymentSettings, source: str | None, trust: ChannelTrust, options: dict[str, Any]
) -> DeploymentSettings:
    from torvyn._deploy.settings import Following

    if source is None:
        raise _needs_keys()
    if options["insecure"]:
        check_insecure(source)
    place = source if "://" in source else str(Path(source).absolute())
    following = Following(
        place,
        trust.channel,
        tuple(trust.keys.pems),
        trust.keys.threshold,
        options["artifact"],
        duration_s("--interval", options["interval"]),
        options["insecure"],
    )
    return replace(
        settings,
        follow=following,
        heartbeat=options["heartbeat"] or settings.heartbeat,
        device=options["device"] or settings.device,
    )


@make_command("update", example="torvyn deploy update gateway")
@name_argument
@root_option
def update(screen: Screen, name: str, root: str | None) -> int:
    """Look for an update now.

    Fetches the channel; if it names another artifact, fetches, verifies and checks it and makes it
    current. A running deployment then exchanges it. The exit code is 3 if the channel cannot be
    reached, and 2 if something is refused.
    """
    from torvyn._deploy.settings import DeploymentSettings

    deployment = existing(root, name)
    settings = DeploymentSettings.read(deployment.settings_file)
    updater = make_updater(deployment, settings)
    if updater is None:
        message = f"the deployment `{name}` follows no channel"
        hint = f"`torvyn deploy follow {name} SOURCE --key FILE`"
        raise UsageError("cli.bad-usage", message, hint=hint)
    result = updater.look()
    if screen.is_json:
        screen.document({"deployment": name, **asdict(result)})
    else:
        screen.info(f"[torvyn] {escape_line(_sentence(result))}")
    return 0


def _sentence(result: UpdateResult) -> str:
    text = {
        "current": f"Version {result.version} of the channel runs already.",
        "updated": f"Version {result.version} of the channel is generation {result.generation}.",
        "excluded": f"Version {result.version} is not for this device yet",
        "failed-before": f"Version {result.version} has failed here and is not tried again",
        "unsupported": f"Version {result.version} cannot run here",
    }[result.state]
    return f"{text}: {result.reason}." if result.reason else text


def make_updater(deployment: Deployment, settings: DeploymentSettings) -> Updater | None:
    """None if the deployment follows no channel."""
    from importlib.metadata import version

    from torvyn._deploy.generation_process import problem_of
    from torvyn._deploy.update import Updater

    if settings.follow is None:
        return None
    return Updater(
        deployment,
        settings,
        settings.follow,
        check=partial(problem_of, deployment, settings),
        torvyn_version=version("torvyn"),
    )


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

    from torvyn._deploy.deployment import open_deployment
    from torvyn._deploy.settings import DeploymentSettings
    from torvyn._deploy.update import add_artifact

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
    from torvyn._deploy.deployment import deployments

    found = deployments(root_folder(root)) if name is None else [existing(root, name)]
    if screen.is_json:
        screen.document({"deployments": [_deployment_fields(each) for each in found]})
        return 0
    rows = [row for each in found for row in _rows(each)]
    if rows:
        from torvyn._cli.statistics import table

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
    from torvyn._deploy.failures import no_generation

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
    from torvyn._cli.deploy_companions import companions
    from torvyn._cli.flow_socket import statuses_of
    from torvyn._deploy.deployment_run import DeploymentRun
    from torvyn._deploy.generation_process import RunOptions, generation_command
    from torvyn._deploy.settings import DeploymentSettings
    from torvyn._observe.logs import show_logs

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
    from torvyn._cli.flow_socket import control_socket_of
    from torvyn._cli.flow_socket import request as send

    return send(control_socket_of(pid), "exchange", **request)


def _ask_server(pid: int) -> list[Mapping[str, Any]]:
    from torvyn._cli.flow_socket import control_socket_of
    from torvyn._cli.flow_socket import request as send

    try:
        return [send(control_socket_of(pid), "status")]
    except (OSError, ValueError):
        return []


for subcommand in (add, list_, activate, rollback, gc, run, follow, update, channel):
    command.add_command(subcommand)
