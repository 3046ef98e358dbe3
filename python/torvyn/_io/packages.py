"""Imports packages that only some users need, so that a missing one is told with its command."""

from __future__ import annotations

import importlib
import logging
from typing import Any, Final

from torvyn.errors import MissingError, install_hint

_DISTRIBUTIONS: Final = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}
"""What to install for a module, if it is not called like its package."""


def import_package(
    module: str, needed_by: str, extra: str, code: str = "components.package-missing"
) -> Any:
    """The module; raises `MissingError` with the command that installs the extra. The package is
    that of the module, or the one that its import did not find."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = getattr(error, "name", None) or module
        if f"{module}.".startswith(f"{missing}."):
            missing = module
        package = _DISTRIBUTIONS.get(missing, missing.partition(".")[0])
        message = f"{needed_by} needs the package `{package}`"
        raise MissingError(code, message, hint=f"install it: {install_hint(extra)}") from error


def quiet_logger(name: str) -> None:
    """For a library that logs each failed try: the connection reports a failure once."""
    library = logging.getLogger(name)
    if library.level == logging.NOTSET:
        library.setLevel(logging.CRITICAL)
