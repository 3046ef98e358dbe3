"""The options that the commands of `deploy` share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from torvyn.errors import UsageError

if TYPE_CHECKING:
    from torvyn._deploy.deployment import Deployment
    from torvyn._deploy.publication import KeySet

Function = TypeVar("Function", bound=Callable[..., Any])


def root_option(function: Function) -> Function:
    return click.option(
        "--root",
        metavar="FOLDER",
        help="The folder of the deployments; by default /var/lib/torvyn/deployments for root, else "
        "one in your state folder.",
    )(function)


def threshold_option(help: str) -> Callable[[Function], Function]:
    return click.option(
        "--threshold",
        default=1,
        show_default=True,
        type=click.IntRange(min=1),
        metavar="N",
        help=help,
    )


def name_argument(function: Function) -> Function:
    return click.argument("name", metavar="NAME")(function)


def refuse_ignored(where: str, names: Collection[str]) -> None:
    """Raises an error if one of these parameters was given where it means nothing: whoever writes
    it expects that it does something."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is ParameterSource.COMMANDLINE:
            is_option = isinstance(parameter, click.Option)
            shown = parameter.opts[0] if is_option else (parameter.name or "").upper()
            message = f"`{shown}` means nothing {where}"
            raise UsageError("cli.bad-usage", message, hint="leave it out")


def named_keys(paths: Sequence[str], threshold: int) -> KeySet:
    """The public keys of `--key`, so many of which must sign."""
    from torvyn._artifact.keys import PublicKey
    from torvyn._deploy.publication import KeySet

    pems = [PublicKey.read(path).pem.decode() for path in paths]
    try:
        return KeySet.of(pems, threshold, 1)
    except ValueError as error:
        raise UsageError("cli.bad-value", f"`--threshold`: {error}") from None


def root_folder(root: str | None) -> Path:
    from torvyn._deploy.deployment import default_root

    return default_root() if root is None else Path(root).absolute()


def existing(root: str | None, name: str) -> Deployment:
    from torvyn._deploy.deployment import find_deployment

    return find_deployment(root_folder(root), name)
