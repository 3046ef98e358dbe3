"""`torvyn deploy follow | update`: a deployment and its channel."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn.cli.artifacts.access import check_insecure, insecure_option
from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.deployment.options import (
    existing,
    name_argument,
    named_keys,
    refuse_ignored,
    root_folder,
    root_option,
    threshold_option,
)
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s
from torvyn.errors import UsageError
from torvyn.text.control_characters import escape_line

if TYPE_CHECKING:
    from torvyn.edge.channel import ChannelTrust
    from torvyn.edge.channel.publication import KeySet
    from torvyn.edge.generations import Deployment
    from torvyn.edge.generations.settings import DeploymentSettings
    from torvyn.edge.update import Updater, UpdateResult

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
    from torvyn.edge.generations import open_deployment
    from torvyn.edge.generations.settings import DeploymentSettings

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
    from torvyn.edge.channel import ChannelTrust
    from torvyn.edge.update.updater import accepted_trust

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
    from torvyn.edge.generations.settings import Following

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
    from torvyn.edge.generations.settings import DeploymentSettings

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
