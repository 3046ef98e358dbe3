"""`torvyn deploy channel`: signs and publishes channels, for release engineers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.artifact_options import insecure_option, read_passphrase
from torvyn._cli.command import command as make_command
from torvyn._cli.command import command_group
from torvyn._cli.deploy_options import named_keys, refuse_ignored, threshold_option
from torvyn._cli.screen import Screen
from torvyn._cli.target import pairs
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._artifact.keys import SigningKey
    from torvyn._deploy.channel import ArtifactEntry, ChannelDocument
    from torvyn._deploy.publication import Publication

EPILOG = """\b
Examples:
  torvyn deploy channel sign channel.json --artifact gateway=./dist --key release
  torvyn deploy channel verify channel.json --key release.pub
"""

SIGN_EXAMPLE = """\
torvyn deploy channel sign channel.json --artifact gateway=oci:./dist:1.2.0 --key release
torvyn deploy channel sign channel.json --artifact gateway=./dist --key release --rollout 10"""

file_argument = click.argument("file", metavar="FILE")
key_option = click.option(
    "--key", "keys", multiple=True, required=True, metavar="FILE", help="A private key. Repeatable."
)
passphrase_option = click.option(
    "--passphrase-file", metavar="FILE", help="A file with the passphrase of the keys."
)


@command_group("channel", epilog=EPILOG)
def command() -> None:
    """Sign the channel that deployments follow.

    A channel is one file: a signed document with the digests of all artifacts, and all changes of
    its keys. Put it next to the layout on a stick or a web server.
    """


@make_command("sign", example=SIGN_EXAMPLE)
@file_argument
@click.option(
    "--artifact",
    "artifacts",
    multiple=True,
    required=True,
    metavar="NAME=LAYOUT",
    help="An artifact of the channel. Repeatable.",
)
@key_option
@passphrase_option
@click.option("--channel", metavar="NAME", help="The name of a new channel; by default stable.")
@click.option("--version", type=click.IntRange(min=1), metavar="N", help="By default the next one.")
@click.option("--min-version", type=click.IntRange(min=0), metavar="N", help="Bar earlier ones.")
@click.option("--expires", metavar="DAYS", type=click.IntRange(min=1), help="After so many days.")
@click.option(
    "--rollout",
    default=100,
    show_default=True,
    type=click.IntRange(0, 100),
    metavar="PERCENT",
    help="The share of the devices that take it.",
)
@click.option("--salt", default="", metavar="TEXT", help="Another salt chooses other devices.")
@click.option("--torvyn", default="", metavar="VERSIONS", help="Such as `>=0.3`.")
@click.option(
    "--drop",
    "dropped",
    multiple=True,
    metavar="NAME",
    help="An artifact of the version before that ends here. Repeatable.",
)
@click.option("--allow-lower-version", is_flag=True, help="Sign a version that devices may refuse.")
def sign(screen: Screen, file: str, artifacts: tuple[str, ...], **options: Any) -> int:
    """Sign the next version of a channel.

    FILE is created, or replaced by its next version. Its layouts must be where the devices find
    the file. What devices would refuse, or lose, is not signed unless you say so.
    """
    from torvyn._deploy.channel import ChannelDocument, Rollout
    from torvyn._deploy.publication import publish

    path = Path(file)
    before = _read(path) if path.exists() else None
    earlier = None if before is None else ChannelDocument.parse(before.document.payload)
    layouts = pairs(artifacts, "--artifact", "NAME=LAYOUT")
    _check_sign_options(layouts, artifacts, earlier, options)
    entries = [_entry(name, text, options["torvyn"]) for name, text in layouts.items()]
    issued_s = int(time.time())
    days = options["expires"]
    document = ChannelDocument(
        channel=options["channel"] or (earlier.channel if earlier else "stable"),
        version=options["version"] or (earlier.version + 1 if earlier else 1),
        issued_s=issued_s,
        artifacts=tuple(entries),
        expires_s=None if days is None else issued_s + days * 86_400,
        min_version=_min_version(options["min_version"], earlier),
        rollout=Rollout(options["rollout"], options["salt"]),
    )
    # What is written must be what devices can read.
    document = ChannelDocument.parse(document.serialize())
    keys = _signing_keys(options["keys"], options["passphrase_file"])
    if before is not None:
        _check_against(screen, before, document, keys, layouts, options)
    return _write(screen, path, publish(document, keys, before))


def _check_sign_options(
    layouts: Mapping[str, str],
    artifacts: tuple[str, ...],
    earlier: ChannelDocument | None,
    options: Mapping[str, Any],
) -> None:
    """Refuses options that would do nothing."""
    if len(layouts) != len(artifacts):
        raise UsageError("cli.bad-usage", "two `--artifact` have the same name")
    if options["rollout"] in (0, 100):
        refuse_ignored("where all devices are alike: beside `--rollout` 0 or 100", ("salt",))
    if earlier is None:
        refuse_ignored("for a new channel", ("dropped", "allow_lower_version"))
        return
    for name in options["dropped"]:
        if name in layouts or name not in {entry.name for entry in earlier.artifacts}:
            why = "is named with `--artifact`" if name in layouts else "was not in the channel"
            raise UsageError("cli.bad-usage", f"`--drop {name}` means nothing: it {why}")
    if options["version"] is None or options["version"] > earlier.version:
        where = f"for a version after {earlier.version}, which was signed last"
        refuse_ignored(where, ("allow_lower_version",))


def _check_against(
    screen: Screen,
    before: Publication,
    document: ChannelDocument,
    keys: list[SigningKey],
    layouts: Mapping[str, str],
    options: Mapping[str, Any],
) -> None:
    """Compares the document with the version before."""
    from torvyn._deploy.channel import ChannelDocument
    from torvyn._deploy.publication import check_next, older_project

    warnings = check_next(
        before,
        document,
        [key.public for key in keys],
        dropped=options["dropped"],
        may_fall=options["allow_lower_version"],
    )
    earlier = ChannelDocument.parse(before.document.payload)
    digests = {entry.name: entry.digest for entry in earlier.artifacts}
    older = [
        warning
        for entry in document.artifacts
        if entry.name in digests
        for warning in older_project(
            entry.name,
            _project_version(layouts[entry.name], entry.digest),
            _project_version(layouts[entry.name], digests[entry.name]),
        )
    ]
    screen.warn([*warnings, *older])


def _project_version(text: str, digest: str) -> str:
    """The version of a project in a layout; empty if it is not there any more."""
    from torvyn._artifact.unpack import locate
    from torvyn._deploy.update import VERSION
    from torvyn.errors import TorvynError

    try:
        layout, _ = locate(text)
        return layout.manifest(layout.resolve(digest)).annotations.get(VERSION, "")
    except TorvynError:
        return ""


@make_command("countersign", example="torvyn deploy channel countersign channel.json --key second")
@file_argument
@key_option
@passphrase_option
def countersign(
    screen: Screen, file: str, keys: tuple[str, ...], passphrase_file: str | None
) -> int:
    """Add the signature of another person.

    For channels whose devices want more than one signature.
    """
    from torvyn._deploy.publication import countersign as add_signature

    publication = _read(Path(file))
    for key in _signing_keys(keys, passphrase_file):
        if publication.document.signers([key.public]):
            message = f"`--key`: {key.public.name} has signed this version already"
            raise UsageError("cli.bad-usage", message, hint="leave it out")
        publication = add_signature(publication, key)
    return _write(screen, Path(file), publication)


@make_command(
    "rotate", example="torvyn deploy channel rotate channel.json --key release --new-key next"
)
@file_argument
@key_option
@click.option(
    "--new-key",
    "new_keys",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A new private key. Repeatable.",
)
@threshold_option("How many of the new keys must sign.")
@passphrase_option
def rotate(
    screen: Screen,
    file: str,
    keys: tuple[str, ...],
    new_keys: tuple[str, ...],
    threshold: int,
    passphrase_file: str | None,
) -> int:
    """Change the keys of a channel.

    The old and the new keys sign the change; the document is signed again, as the next version,
    by the new keys. From then on the old keys are worthless.
    """
    from torvyn._deploy.publication import rotate as change_keys

    old, new = (_signing_keys(names, passphrase_file) for names in (keys, new_keys))
    if threshold > len(new):
        message = f"`--threshold`: {threshold} of {len(new)} keys is not a threshold"
        raise UsageError("cli.bad-value", message)
    before = _read(Path(file))
    issued_s = int(time.time())
    rotated = change_keys(before, old, new, threshold=threshold, issued_s=issued_s)
    return _write(screen, Path(file), rotated)


@make_command(
    "push",
    example="torvyn deploy channel push channel.json oci://registry.example.com/gateway:stable",
)
@file_argument
@click.argument("target", metavar="REFERENCE")
@insecure_option
def push(screen: Screen, file: str, target: str, insecure: bool) -> int:
    """Publish a channel to a registry, under a tag that moves.

    Publish its artifacts to the same repository first: `torvyn publish`.
    """
    from torvyn._artifact.reference import Reference
    from torvyn._deploy.channel import ChannelDocument
    from torvyn._deploy.source import push_channel

    data = _read_bytes(Path(file))
    document = ChannelDocument.parse(_read(Path(file)).document.payload)
    reference = Reference.parse(target)
    if reference.tag is None or reference.digest is not None:
        message = f"`{target}` has no tag that could move: devices look for a channel under a tag"
        hint = f"for example `oci://{reference.host}/{reference.repository}:{document.channel}`"
        raise UsageError("cli.bad-value", message, hint=hint)
    push_channel(data, reference, is_insecure=insecure)
    return _show(screen, document, f"is published as {target}")


@make_command("verify", example="torvyn deploy channel verify channel.json --key release.pub")
@file_argument
@click.option(
    "--key", "keys", multiple=True, required=True, metavar="FILE", help="A public key. Repeatable."
)
@threshold_option("How many of the keys must have signed.")
@click.option("--channel", default="stable", show_default=True, metavar="NAME")
def verify(screen: Screen, file: str, keys: tuple[str, ...], threshold: int, channel: str) -> int:
    """Verify a channel as a device would that sees it for the first time."""
    from torvyn._deploy.trust import ChannelTrust, accept

    trust = ChannelTrust(channel, named_keys(keys, threshold))
    document, _ = accept(_read_bytes(Path(file)), trust, time.time())
    return _show(screen, document, "is signed by the keys that you trust")


@make_command("show", example="torvyn deploy channel show channel.json")
@file_argument
def show(screen: Screen, file: str) -> int:
    """Show what a channel says, without verifying it."""
    from torvyn._deploy.channel import ChannelDocument

    document = ChannelDocument.parse(_read(Path(file)).document.payload)
    return _show(screen, document, "was not verified")


for subcommand in (sign, countersign, rotate, push, show, verify):
    command.add_command(subcommand)


def _entry(name: str, text: str, torvyn: str) -> ArtifactEntry:
    from torvyn._artifact.unpack import locate
    from torvyn._deploy.channel import ArtifactEntry, Requirement
    from torvyn._deploy.update import total_bytes

    layout, descriptor = locate(text)
    try:
        requirement = Requirement.parse(torvyn)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`--torvyn`: {error}") from None
    size = total_bytes(layout.read(descriptor))
    return ArtifactEntry(name, descriptor.digest, size, requirement)


def _min_version(given: int | None, earlier: ChannelDocument | None) -> int:
    least = 0 if earlier is None else earlier.min_version
    return least if given is None else given


def _signing_keys(names: tuple[str, ...], passphrase_file: str | None) -> list[SigningKey]:
    from torvyn._artifact.keys import SigningKey

    passphrase = read_passphrase(passphrase_file)
    keys = [SigningKey.read(name, passphrase) for name in names]
    if len({key.public for key in keys}) != len(keys):
        message = "the same key is named twice, and counts once"
        raise UsageError("cli.bad-usage", message, hint="name each key once")
    return keys


def _read(path: Path) -> Publication:
    from torvyn._deploy.publication import Publication

    return Publication.parse(_read_bytes(path))


def _read_bytes(path: Path) -> bytes:
    from torvyn._artifact.layout import read_regular
    from torvyn._deploy.publication import MAX_BYTES

    return read_regular(path, MAX_BYTES)


def _write(screen: Screen, path: Path, publication: Publication) -> int:
    from torvyn._artifact.layout import write_file
    from torvyn._deploy.channel import ChannelDocument

    write_file(path, publication.serialize())
    document = ChannelDocument.parse(publication.document.payload)
    count = len(publication.document.signatures)
    return _show(screen, document, f"has {count} signature{'' if count == 1 else 's'}")


def _show(screen: Screen, document: ChannelDocument, remark: str) -> int:
    import json

    if screen.is_json:
        screen.document({**json.loads(document.serialize()), "remark": remark})
        return 0
    screen.info(f"[torvyn] Version {document.version} of `{document.channel}` {remark}.")
    from torvyn._cli.statistics import table

    rows = [
        (entry.name, entry.digest, f"{entry.size:,}", str(entry.torvyn) or "any")
        for entry in document.artifacts
    ]
    screen.data(table(("artifact", "digest", "bytes", "torvyn"), rows))
    return 0
