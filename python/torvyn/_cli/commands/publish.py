"""`torvyn publish`: copies an artifact and its signatures from a layout to a registry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from torvyn._cli.artifact_options import insecure_option, registry_reference
from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._artifact.publish import Published, PublishOptions
    from torvyn._artifact.reference import Reference

EXAMPLE = """\
torvyn publish oci:./dist:1.2 oci://registry.example.com/plant/gateway
torvyn publish dist oci://registry.example.com/plant/gateway:latest --replace"""


@make_command("publish", example=EXAMPLE)
@click.argument("source", metavar="LAYOUT")
@click.argument("target", metavar="REFERENCE")
@click.option("--replace", is_flag=True, help="Move the tag if another artifact has it.")
@click.option(
    "--mount-from",
    metavar="NAME",
    help="Another repository of the registry, which may have some of the files.",
)
@insecure_option
def command(screen: Screen, source: str, target: str, **options: Any) -> int:
    """Publish an artifact to a registry.

    Copies an artifact of a layout, with its signatures. Without a tag in REFERENCE, the tag of the
    layout is used. The tag moves last, so nobody finds an incomplete artifact under it. Files that
    the registry has are not sent again, and an interrupted upload continues where it stopped.
    Logins come from docker's config.json and its helpers.
    """
    from torvyn._artifact.layout import Layout
    from torvyn._artifact.publish import PublishOptions, publish
    from torvyn._artifact.reference import LayoutReference, parse_reference
    from torvyn._cli.progress import transfer_progress
    from torvyn._io.background_loop import run_apart

    remote = registry_reference(target, "the target")
    local = parse_reference(source)
    if not isinstance(local, LayoutReference):
        message = f"`{source}` is in a registry already"
        raise UsageError("cli.bad-value", message, hint="pull it first: `torvyn pull --output`")
    layout = Layout(local.folder)
    descriptor = layout.resolve(local.target)
    own = [tag for tag, each in layout.tags().items() if each.digest == descriptor.digest]
    remote = _tagged(remote, [local.tag] if local.tag else own)
    with transfer_progress(screen, "sending") as progress:
        chosen = _options(PublishOptions, options, progress)
        published = run_apart(publish(layout, descriptor, remote, chosen))
    _show(screen, remote, published)
    return 0


def _options(kind: type[PublishOptions], options: dict[str, Any], progress: Any) -> PublishOptions:
    return kind(
        may_replace=options["replace"],
        mount_from=options["mount_from"],
        is_insecure=options["insecure"],
        progress=progress.advance,
        starts=progress.starts,
    )


def _tagged(remote: Reference, tags: list[str]) -> Reference:
    """The target with a tag: its own, else the only one of the artifact."""
    if remote.digest is not None:
        hint = "name a tag, or nothing"
        raise UsageError("cli.bad-value", "the target cannot name a digest", hint=hint)
    if remote.tag is not None:
        return remote
    if len(tags) != 1:
        message = "the target has no tag, and the artifact does not have exactly one"
        raise UsageError("cli.bad-value", message, hint="write oci://host/name:tag")
    return replace(remote, tag=tags[0])


def _show(screen: Screen, remote: Reference, published: Published) -> None:
    from torvyn._cli.progress import size_text

    reference = str(replace(remote, digest=published.digest))
    if screen.is_json:
        screen.document(
            {
                "reference": reference,
                "digest": published.digest,
                "files": published.blobs,
                "sent_files": published.sent_blobs,
                "sent_bytes": published.sent_bytes,
                "signatures": published.referrers,
            }
        )
        return
    screen.data(reference)
    sent = f"sent {published.sent_blobs} of {published.blobs} files"
    signatures = f"{published.referrers} signature{'' if published.referrers == 1 else 's'}"
    screen.info("", f"{sent} ({size_text(published.sent_bytes)}), {signatures}")
