"""`torvyn sign`: signs an artifact in a layout or a registry, and generates keys."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from torvyn._cli.artifact_options import insecure_option, read_passphrase, read_signing_key
from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn.errors import UsageError

EXAMPLE = """\
torvyn sign --generate-key plant.key
torvyn sign oci:./dist:1.2 --key plant.key
torvyn sign oci://registry.example.com/plant/gateway:1.2 --key plant.key --expires 90d"""

_ALGORITHMS: Final = ("ed25519", "ecdsa-p256")
_MOST_DAYS: Final = 36_500


@make_command("sign", example=EXAMPLE)
@click.argument("reference", required=False, metavar="[REFERENCE]")
@click.option("--key", metavar="FILE", help="The private key, a PEM file.")
@click.option(
    "--passphrase-file", metavar="FILE", help="A file whose first line is the key's passphrase."
)
@click.option(
    "--expires", metavar="DAYS", help="How long the signature is valid, such as 90d; else forever."
)
@click.option(
    "--generate-key", metavar="FILE", help="Generate a key; the public key goes to FILE.pub."
)
@click.option(
    "--algorithm",
    type=click.Choice(_ALGORITHMS),
    default=_ALGORITHMS[0],
    show_default=True,
    help="The algorithm of the key to generate.",
)
@insecure_option
def command(screen: Screen, reference: str | None, **options: Any) -> int:
    """Sign an artifact, or generate a key.

    A signature vouches for the digest of an artifact, and so for all its files. It is stored
    beside the artifact, in the layout or the registry, as a Sigstore bundle that cosign can verify
    too. Keep the private key secret, and give the public key to whoever should trust you.
    """
    path, key = options["generate_key"], options["key"]
    if (path is None) == (reference is None):
        message = "name an artifact to sign, or a key to generate"
        raise UsageError("cli.bad-usage", message, hint="see `torvyn sign --help`")
    if path is not None:
        return _generate(screen, Path(path), options)
    if key is None:
        hint = "write `--key FILE`; `torvyn sign --generate-key FILE` makes one"
        raise UsageError("cli.bad-usage", "name the private key", hint=hint)
    return _sign(screen, str(reference), options)


def _generate(screen: Screen, path: Path, options: dict[str, Any]) -> int:
    from torvyn._artifact.keys import SigningKey

    key = SigningKey.generate(options["algorithm"])
    public = key.write(path, read_passphrase(options["passphrase_file"]))
    if screen.is_json:
        fields = {"private_key": str(path), "public_key": str(public), "id": key.public.id}
        screen.document(fields | {"algorithm": key.public.algorithm})
        return 0
    screen.data(str(public))
    screen.info("", f"{path} is the private key: keep it secret, and keep a copy of it.")
    return 0


def _sign(screen: Screen, reference: str, options: dict[str, Any]) -> int:
    from torvyn._artifact.publish import SigningOptions, sign_artifact

    key = read_signing_key(options["key"], options["passphrase_file"])
    now = _now()
    expires_at = None if options["expires"] is None else now + _lifetime(options["expires"])
    chosen = SigningOptions(now, expires_at, is_insecure=options["insecure"])
    signed = sign_artifact(reference, key, chosen)
    if screen.is_json:
        expires = expires_at.isoformat() if expires_at else None
        fields = {"source": signed.source, "digest": signed.digest, "key_id": key.public.id}
        screen.document(fields | {"algorithm": key.public.algorithm, "expires": expires})
        return 0
    screen.data(f"{signed.source}@{signed.digest}")
    until = f" until {expires_at:%Y-%m-%d}" if expires_at else ""
    screen.info("", f"signed with {key.public.name}{until}")
    return 0


def _now() -> datetime:
    """The time of the signature; `SOURCE_DATE_EPOCH` makes builds repeatable."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if re.fullmatch(r"[0-9]{1,11}", epoch):
        return datetime.fromtimestamp(int(epoch), UTC)
    return datetime.now(UTC).replace(microsecond=0)


def _lifetime(text: str) -> timedelta:
    days = re.fullmatch(r"([0-9]{1,6})d", text, re.ASCII)
    if days is None or not 0 < int(days[1]) <= _MOST_DAYS:
        message = f"`--expires`: {text} is not a number of days up to {_MOST_DAYS}"
        raise UsageError("cli.bad-value", message, hint="for example 90d")
    return timedelta(days=int(days[1]))
