"""Imports the packages that only artifacts need."""

from __future__ import annotations

import importlib
from typing import Any

from torvyn.errors import MissingError, install_hint


def import_package(module: str, purpose: str) -> Any:
    """The module; raises `MissingError` with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (getattr(error, "name", None) or module).partition(".")[0]
        raise MissingError(
            "artifact.package-missing",
            f"{purpose} needs the package `{missing}`",
            hint=f"install it: {install_hint('oci')}",
        ) from error
