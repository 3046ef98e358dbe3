"""`torvyn verify`: checks the files and the signatures of an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from torvyn._cli.artifact_options import fetch_arguments, fetch_artifact, policy_of, trust_arguments
from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn.errors import ArtifactError

if TYPE_CHECKING:
    from torvyn._artifact.fetch import Fetched

EXAMPLE = """\
torvyn verify oci:./dist:1.2 --key plant.key.pub
torvyn verify oci://registry.example.com/plant/gateway:1.2"""


@make_command("verify", example=EXAMPLE)
@click.argument("reference", metavar="REFERENCE")
@trust_arguments
@fetch_arguments
def command(
    screen: Screen,
    reference: str,
    keys: tuple[str, ...],
    threshold: int,
    offline: bool,
    insecure: bool,
) -> int:
    """Verify the files and the signatures of an artifact.

    Trusted are the keys that `--key` names. Without any, the trust policy decides:
    /etc/torvyn/trust.toml if it exists, else trust.toml in your config folder. The exit code is 0
    only if enough trusted keys have signed the artifact and all its files are unchanged; an
    artifact that the policy merely allows is not verified.
    """
    policy = policy_of(keys, threshold)
    fetched = fetch_artifact(screen, reference, offline=offline, insecure=insecure, policy=policy)
    for blob in fetched.layout.manifest(fetched.descriptor).blobs:
        fetched.layout.verify(blob)
    problem = fetched.verification.problem
    if problem is not None:
        raise ArtifactError(problem.code, problem.message, hint=problem.hint)
    _show(screen, fetched)
    return 0


def _show(screen: Screen, fetched: Fetched) -> None:
    reference = f"{fetched.source}@{fetched.descriptor.digest}"
    signers = sorted(fetched.verification.signers, key=lambda key: key.name)
    if screen.is_json:
        keys = [{"name": key.name, "id": key.id, "algorithm": key.algorithm} for key in signers]
        screen.document({"reference": reference, "is_verified": True, "signers": keys})
        return
    screen.data(reference)
    for key in signers:
        screen.info(f"signed by {key.name} ({key.algorithm}, {key.id[:12]})")
