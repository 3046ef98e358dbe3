"""Imports packages that only some components need."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from torvyn.errors import MissingError, install_hint


def import_package(module: str, component: str, extra: str) -> Any:
    """The module; raises `MissingError` with the command that installs what it needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or module
        raise MissingError(
            "components.package-missing",
            f"`{component}` needs the package `{missing.partition('.')[0]}`",
            hint=f"install it: {install_hint(extra)}",
        ) from error


def quiet_logger(name: str) -> None:
    """For a library that logs each failed try: the connection reports a failure once."""
    library = logging.getLogger(name)
    if library.level == logging.NOTSET:
        library.setLevel(logging.CRITICAL)
