"""The packages that serving gRPC needs. They provide messages only: no other server runs."""

from __future__ import annotations

from typing import Final

from torvyn._io.packages import import_package
from torvyn.errors import MissingError

_MODULES: Final = ("google.protobuf", "google.rpc", "grpc_health", "grpc_reflection")


def require_packages() -> None:
    for module in _MODULES:
        import_package(module, "serving gRPC", "grpc", "transport.package-missing")


def has_packages() -> bool:
    try:
        require_packages()
    except MissingError:
        return False
    return True
