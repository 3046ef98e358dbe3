"""The options of commands that use artifacts of registries, and the trust that applies to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torvyn.errors import UsageError, os_reason

if TYPE_CHECKING:
    from torvyn._artifact.fetch import Fetched
    from torvyn._artifact.keys import PublicKey, SigningKey
    from torvyn._artifact.trust import TrustPolicy
    from torvyn._artifact.unpack import PreparedProject
    from torvyn._cli.screen import Screen

Function = TypeVar("Function", bound=Callable[..., Any])

insecure_option = click.option(
    "--insecure", is_flag=True, help="Allow registries on other machines without TLS."
)


def check_insecure(source: str) -> None:
    """Raises an error if `--insecure` was given for a source that is in no registry."""
    from torvyn._artifact.reference import SCHEME

    if not source.startswith(SCHEME):
        message = f"`--insecure` means nothing for `{source}`, which is not in a registry"
        raise UsageError("cli.bad-usage", message, hint="leave it out")


def fetch_arguments(function: Function) -> Function:
    """The options of commands that fetch an artifact."""
    options = (
        click.option(
            "--offline", is_flag=True, help="Use only what was fetched before; ask no registry."
        ),
        insecure_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


def trust_arguments(function: Function) -> Function:
    """The options that replace the trust policy of this machine."""
    options = (
        click.option(
            "--key",
            "keys",
            multiple=True,
            metavar="FILE",
            help="A public key to trust, in place of the trust policy. Repeatable.",
        ),
        click.option(
            "--threshold",
            type=click.IntRange(min=1),
            default=1,
            metavar="N",
            show_default=True,
            help="How many of the keys must have signed.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def fetch_artifact(
    screen: Screen,
    reference: str,
    *,
    offline: bool = False,
    insecure: bool = False,
    policy: TrustPolicy | None = None,
    cache_dir: Path | None = None,
) -> Fetched:
    """Fetches an artifact, if the policy allows it, and shows its warnings."""
    from torvyn._artifact.cache import cache_folder
    from torvyn._artifact.fetch import FetchOptions, fetch
    from torvyn._artifact.trust import TrustPolicy
    from torvyn._cli.progress import transfer_progress
    from torvyn._cli.target import machine_cache_dir

    with transfer_progress(screen, "fetching") as progress:
        options = FetchOptions(
            policy or TrustPolicy.load(),
            cache_folder(cache_dir or machine_cache_dir({})),
            is_offline=offline,
            is_insecure=insecure,
            progress=progress.advance,
            starts=progress.starts,
        )
        fetched = fetch(reference, options)
    screen.warn(fetched.warnings)
    return fetched


def prepare_artifact(
    screen: Screen,
    reference: str,
    cache_dir: Path,
    *,
    offline: bool,
    insecure: bool,
    trusted: bool = False,
) -> PreparedProject:
    """A project of an artifact, ready to run: fetched, verified and unpacked. The folder of an
    unpacked artifact is a reference too; `trusted` says whether its precompiled code is used."""
    from torvyn._artifact.reference import LAYOUT_SCHEME
    from torvyn._artifact.unpack import is_unpacked, prepare, prepare_project

    if not reference.startswith(LAYOUT_SCHEME) and is_unpacked(Path(reference)):
        return prepare(reference, cache_dir, is_trusted=trusted)
    fetched = fetch_artifact(
        screen, reference, offline=offline, insecure=insecure, cache_dir=cache_dir
    )
    is_trusted = fetched.verification.is_verified
    return prepare_project(fetched.layout, fetched.descriptor, cache_dir, is_trusted=is_trusted)


def policy_of(keys: tuple[str, ...], threshold: int) -> TrustPolicy | None:
    """The policy that `--key` describes; None without keys."""
    from torvyn._artifact.trust import Rule, TrustPolicy

    if not keys:
        if threshold > 1:
            hint = "name the keys with `--key`"
            raise UsageError("cli.bad-usage", "`--threshold` needs keys", hint=hint)
        return None
    trusted: list[PublicKey] = _public_keys(keys)
    if threshold > len(trusted):
        message = f"`--threshold` is {threshold}, but `--key` names {len(trusted)} different keys"
        raise UsageError("cli.bad-usage", message)
    return TrustPolicy((Rule("", "reject", tuple(trusted), threshold),))


def _public_keys(paths: tuple[str, ...]) -> list[PublicKey]:
    from torvyn._artifact.keys import PublicKey

    return list(dict.fromkeys(PublicKey.read(path) for path in paths))


def read_signing_key(path: str, passphrase_file: str | None) -> SigningKey:
    """A private key. Its passphrase is in a file, or asked for on a terminal."""
    from torvyn._artifact.keys import SigningKey

    return SigningKey.read(path, read_passphrase(passphrase_file))


def read_passphrase(path: str | None) -> bytes | None:
    """The first line of a file."""
    if path is None:
        return None
    try:
        return Path(path).read_bytes().splitlines()[0]
    except OSError as error:
        message = f"cannot read the passphrase in `{path}`: {os_reason(error)}"
        raise UsageError("cli.input-unusable", message) from None
    except IndexError:
        raise UsageError("cli.input-unusable", f"`{path}` has no passphrase") from None


def registry_reference(text: str, option: str) -> Any:
    """A reference to a registry, as an argument must be."""
    from torvyn._artifact.reference import SCHEME, Reference

    if not text.startswith(SCHEME):
        message = f"{option} must be in a registry, and `{text}` is not"
        raise UsageError("cli.bad-value", message, hint="write oci://host/name:tag")
    return Reference.parse(text)
