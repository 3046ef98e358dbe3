"""`torvyn deploy follow | update`: a deployment and its channel."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.artifacts.access import insecure_option
from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.deployment.options import (
    existing,
    name_argument,
    root_folder,
    root_option,
    threshold_option,
)
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment
    from torvyn.edge.generations.settings import DeploymentSettings
    from torvyn.edge.update import Updater, UpdateResult

FOLLOW_EXAMPLE = """\
torvyn deploy follow gateway https://updates.example.com/channel.json --key release.pub
torvyn deploy follow gateway /media/stick/channel.json --key release.pub
torvyn deploy follow gateway --stop"""


@make_command("follow", example=FOLLOW_EXAMPLE)
@name_argument
@click.argument("source", required=False, metavar="[SOURCE]")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="FILE",
    help="A public key that may sign the channel. Repeatable.",
)
@threshold_option("How many of the keys must have signed.")
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
    used only if the keys have signed it.
    """
    from torvyn.edge.generations import open_deployment
    from torvyn.edge.generations.settings import DeploymentSettings

    deployment = open_deployment(root_folder(root), name)
    deployment.create()
    settings = DeploymentSettings.read(deployment.settings_file)
    if options["stop"]:
        settings = replace(settings, follow=None)
    else:
        settings = _following(settings, source, options)
    settings.write(deployment.settings_file)
    if screen.is_json:
        screen.document({"deployment": name, **asdict(settings)})
    elif settings.follow is None:
        screen.info(f"[torvyn] `{name}` follows no channel any more.")
    else:
        screen.info(f"[torvyn] `{name}` follows {settings.follow.source}.")
        screen.info(f"[torvyn] To look for an update now: `torvyn deploy update {name}`.")
    return 0


def _following(
    settings: DeploymentSettings, source: str | None, options: dict[str, Any]
) -> DeploymentSettings:
    from torvyn.artifact.signature.keys import PublicKey
    from torvyn.edge.channel.publication import KeySet
    from torvyn.edge.generations.settings import Following
    from torvyn.errors import UsageError

    if source is None or not options["keys"]:
        message = "a channel needs its source and at least one `--key`"
        hint = "for example `torvyn deploy follow gateway channel.json --key release.pub`"
        raise UsageError("cli.bad-usage", message, hint=hint)
    pems = [PublicKey.read(path).pem.decode() for path in options["keys"]]
    try:
        KeySet.of(pems, options["threshold"], 1)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`--threshold`: {error}") from None
    place = source if "://" in source else str(Path(source).absolute())
    following = Following(
        place,
        options["channel"],
        tuple(pems),
        options["threshold"],
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
    from torvyn.edge.generations.settings import DeploymentSettings
    from torvyn.errors import UsageError

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
        screen.info(f"[torvyn] {_sentence(result)}")
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

    from torvyn.cli.deployment.generation_arguments import problem_of
    from torvyn.edge.update import Updater

    if settings.follow is None:
        return None
    return Updater(
        deployment,
        settings,
        settings.follow,
        check=partial(problem_of, deployment, settings),
        torvyn_version=version("torvyn"),
    )
