"""The packages that serving gRPC needs. They provide messages only: no other server runs."""

from __future__ import annotations

import importlib
from typing import Final

from torvyn.errors import MissingError, install_hint

_PACKAGES: Final = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}


def require_packages() -> None:
    for module, package in _PACKAGES.items():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise MissingError(
                "transport.package-missing",
                f"serving gRPC needs the package `{package}`, which is not installed",
                hint=install_hint("grpc"),
            ) from error


def has_packages() -> bool:
    try:
        require_packages()
    except MissingError:
        return False
    return True
