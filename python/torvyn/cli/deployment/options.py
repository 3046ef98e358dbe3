"""The options that the commands of `deploy` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from torvyn.edge.generations import Deployment

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


def root_folder(root: str | None) -> Path:
    from torvyn.edge.generations import default_root

    return default_root() if root is None else Path(root).absolute()


def existing(root: str | None, name: str) -> Deployment:
    from torvyn.edge.generations import find_deployment

    return find_deployment(root_folder(root), name)
