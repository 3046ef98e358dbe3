"""`torvyn pull`: fetches an artifact of a registry into the cache, or into a layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from torvyn._cli.artifact_options import (
    fetch_arguments,
    fetch_artifact,
    policy_of,
    registry_reference,
    trust_arguments,
)
from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen

if TYPE_CHECKING:
    from torvyn._artifact.fetch import Fetched
    from torvyn._artifact.reference import Reference

EXAMPLE = """\
torvyn pull oci://registry.example.com/plant/gateway:1.2
torvyn pull oci://registry.example.com/plant/gateway:1.2 --key plant.pub --output /media/stick"""


@make_command("pull", example=EXAMPLE)
@click.argument("reference", metavar="REFERENCE")
@click.option(
    "--output", metavar="FOLDER", help="Also copy the artifact and its signatures to this layout."
)
@trust_arguments
@fetch_arguments
def command(
    screen: Screen,
    reference: str,
    output: str | None,
    keys: tuple[str, ...],
    threshold: int,
    offline: bool,
    insecure: bool,
) -> int:
    """Fetch an artifact of a registry.

    The artifact goes to the cache, where `torvyn run` finds it without a network. Its signatures
    are checked before its files are fetched, every file is checked against its digest, and an
    interrupted download continues where it stopped.
    """
    from torvyn._artifact.layout import copy_artifact

    remote = registry_reference(reference, "the artifact")
    policy = policy_of(keys, threshold)
    fetched = fetch_artifact(screen, reference, offline=offline, insecure=insecure, policy=policy)
    if output is not None:
        copy_artifact(fetched.layout, fetched.descriptor, Path(output), remote.tag or "latest")
    _show(screen, remote, fetched, output)
    return 0


def _show(screen: Screen, remote: Reference, fetched: Fetched, output: str | None) -> None:
    from dataclasses import replace

    digest = fetched.descriptor.digest
    pinned = str(replace(remote, tag=None, digest=digest))
    signers = sorted(key.name for key in fetched.verification.signers)
    size = sum(blob.size for blob in fetched.layout.manifest(fetched.descriptor).blobs)
    if screen.is_json:
        fields = {"reference": pinned, "digest": digest, "size_bytes": size, "signers": signers}
        screen.document(
            fields | {"layout": output, "is_verified": fetched.verification.is_verified}
        )
        return
    screen.data(pinned if output is None else f"oci:{output}:{remote.tag or 'latest'}")
    signed = f"signed by {', '.join(signers)}" if signers else "not verified"
    screen.info("", f"{size / 1024:,.1f} KiB, {signed}")
