"""The server of gRPC, beside the one of HTTP: on the same loop, for the same application.

It listens on the host of `[serve]` and on `grpc_port`. Health and reflection are there as clients
of gRPC expect them; while the server ends, its health is NOT_SERVING.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from torvyn.errors import MissingError
from torvyn.transport import tls
from torvyn.transport.settings import KiB

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.settings import ServerSettings

_PACKAGES: Final = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}
_ENVELOPE_BYTES: Final = KiB
"""What a message of gRPC may have around the texts of a body."""
_PING_MS: Final = 20_000
_LEAST_STREAMS: Final = 128
_LAST_S: Final = 1.0
"""For the status of a call whose last frame was sent."""


class GrpcServer:
    """Listens when it is made, answers from `start` to `stop`."""

    def __init__(self, application: Application) -> None:
        must_be_installed()
        import grpc
        from grpc_health.v1 import health, health_pb2_grpc
        from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

        from torvyn.transport.grpc.service import SERVICE, Inference, Reflection

        self._settings = application.settings
        self._server = grpc.aio.server(options=_options(application.settings))
        self._server.add_generic_rpc_handlers((Inference(application).handlers(),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = ("", SERVICE)
        shown = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflecting = Reflection(application, reflection.aio.ReflectionServicer(shown))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflecting, self._server)
        self._ending: asyncio.Future[None] | None = None
        self.port = self._listen()
        self.address = f"{_host(self._settings)}:{self.port}"

    async def start(self) -> None:
        from grpc_health.v1 import health_pb2

        await self._server.start()
        self._limit()
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def close_door(self) -> None:
        """Those who ask for its health hear that it ends; the application refuses new requests."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._health.enter_graceful_shutdown())

    async def stop(self) -> None:
        """Calls that have not ended by now are cut."""
        if self._ending is not None:
            await self._ending
        await self._server.stop(_LAST_S)

    def _listen(self) -> int:
        address = f"{_host(self._settings)}:{self._settings.grpc_port}"
        try:
            port = self._bind(address)
        except RuntimeError as error:
            raise MissingError(
                "transport.cannot-listen",
                f"cannot listen on {address}, for gRPC",
                hint="`--grpc-port` names another port; 0 takes any that is free",
            ) from error
        return port

    def _bind(self, address: str) -> int:
        import grpc

        secured = tls.options(self._settings)
        if not secured:
            return int(self._server.add_insecure_port(address))
        pair = (secured["ssl_key"].read_bytes(), secured["ssl_cert"].read_bytes())
        credentials = grpc.ssl_server_credentials([pair])
        return int(self._server.add_secure_port(address, credentials))

    def _limit(self) -> None:
        """Gives the sockets the buffers that those of HTTP have."""
        from torvyn.transport.server import limit

        for listening in _listening(self.port):
            with listening:
                limit(listening, self._settings)


def _host(settings: ServerSettings) -> str:
    return f"[{settings.host}]" if ":" in settings.host else settings.host


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
    # Two requests for every place, as with HTTP: one is answered, one waits; the rest is told so.
    streams = max(_LEAST_STREAMS, 2 * settings.max_streams)
    return [
        ("grpc.max_receive_message_length", settings.max_body_bytes + _ENVELOPE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", streams),
        # Another server on the same port would get every second connection.
        ("grpc.so_reuseport", 0),
        # Clients that vanished without a word are noticed, and those that ask whether we are here
        # are not sent away.
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PING_MS // 2),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_MS // 4),
        # Requests are small: a client may send this much before it is read.
        ("grpc.http2.lookahead_bytes", 64 * KiB),
        ("grpc.http2.bdp_probe", 0),
    ]


def _listening(port: int) -> Iterator[socket.socket]:
    """The sockets on which this process listens at that port. They are gRPC's, which lends them to
    nobody; but whoever has a descriptor of a socket can set its options, and connections inherit
    them."""
    try:
        numbers = [int(entry) for entry in os.listdir("/proc/self/fd")]
    except OSError:
        return
    for number in numbers:
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            found = socket.socket(fileno=os.dup(number))
        except OSError:
            # It was closed in the meantime.
            continue
        if _listens(found, port):
            yield found
        else:
            found.close()


def _listens(found: socket.socket, port: int) -> bool:
    try:
        name: Any = found.getsockname()
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        return False
    return bool(listens) and isinstance(name, tuple) and name[1] == port


def must_be_installed() -> None:
    for module, package in _PACKAGES.items():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise MissingError(
                "transport.package-missing",
                f"serving gRPC needs the package `{package}`, which is not installed",
                hint='pip install "torvyn[grpc]"',
            ) from error
