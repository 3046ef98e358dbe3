"""The gRPC server, on the same loop as the HTTP server and with the same services.

It listens on `host` and `grpc_port` of `[serve]`, and offers the health and reflection services of
gRPC. While it drains, its health is NOT_SERVING.
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
from torvyn.transport.listener import tls
from torvyn.transport.settings import KiB

if TYPE_CHECKING:
    from torvyn.transport.access.authentication import Authenticator
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.settings import ServerSettings
    from torvyn.transport.telemetry.request_log import RequestLog

_PACKAGES: Final = {
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
}
_ENVELOPE_BYTES: Final = KiB
"""How much a gRPC message may add to the texts of a body."""
_PING_MS: Final = 20_000
_MIN_STREAMS: Final = 128
_STATUS_S: Final = 1.0
"""How long a call that has sent its last frame may take to send its status."""


class GrpcServer:
    """Listens from its construction on, and answers from `start` to `stop`."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        authenticator: Authenticator,
        request_log: RequestLog,
        sample_rate: float,
    ) -> None:
        require_packages()
        import grpc
        from grpc_health.v1 import health, health_pb2_grpc
        from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

        from torvyn.transport.grpc.service import SERVICE, Inference, Reflection

        self._settings = dispatcher.settings
        self._server = grpc.aio.server(options=_options(dispatcher.settings))
        inference = Inference(dispatcher, authenticator, request_log, sample_rate)
        self._server.add_generic_rpc_handlers((inference.handlers(),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = ("", SERVICE)
        described = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        servicer = Reflection(inference, reflection.aio.ReflectionServicer(described))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, self._server)
        self._draining: asyncio.Future[None] | None = None
        self.port = self._listen()
        self.address = f"{_host(self._settings)}:{self.port}"

    async def start(self) -> None:
        from grpc_health.v1 import health_pb2

        await self._server.start()
        self._set_socket_options()
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop_accepting(self) -> None:
        """Reports NOT_SERVING; the dispatcher rejects new requests."""
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._health.enter_graceful_shutdown())

    async def stop(self) -> None:
        """Cancels the calls that still run."""
        if self._draining is not None:
            await self._draining
        await self._server.stop(_STATUS_S)

    def _listen(self) -> int:
        address = f"{_host(self._settings)}:{self._settings.grpc_port}"
        try:
            port = self._bind(address)
        except RuntimeError as error:
            raise MissingError(
                "transport.cannot-listen",
                f"cannot listen on {address} for gRPC",
                hint="choose another port with `--grpc-port`; 0 takes any free port",
            ) from error
        return port

    def _bind(self, address: str) -> int:
        import grpc

        certificate = tls.certificate(self._settings)
        if certificate is None:
            return int(self._server.add_insecure_port(address))
        chain, key = certificate.read()
        credentials = grpc.ssl_server_credentials([(key, chain)])
        return int(self._server.add_secure_port(address, credentials))

    def _set_socket_options(self) -> None:
        """Sets the socket options that HTTP's sockets have."""
        from torvyn.transport.listener.sockets import set_socket_options

        for sock in _listening_sockets(self.port):
            with sock:
                set_socket_options(sock, self._settings)


def _host(settings: ServerSettings) -> str:
    return f"[{settings.host}]" if ":" in settings.host else settings.host


def _options(settings: ServerSettings) -> list[tuple[str, int]]:
    # Two calls per slot, as with HTTP: one runs, one waits; the rest are rejected.
    streams = max(_MIN_STREAMS, 2 * settings.max_streams)
    return [
        ("grpc.max_receive_message_length", settings.max_body_bytes + _ENVELOPE_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", streams),
        # Another server on the same port would get every second connection.
        ("grpc.so_reuseport", 0),
        # Detects clients that vanished, and accepts the pings of clients that check the server.
        ("grpc.keepalive_time_ms", _PING_MS),
        ("grpc.keepalive_timeout_ms", _PING_MS // 2),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_MS // 4),
        # Requests are small: a client may send this much before the server reads it.
        ("grpc.http2.lookahead_bytes", 64 * KiB),
        ("grpc.http2.bdp_probe", 0),
    ]


def _listening_sockets(port: int) -> Iterator[socket.socket]:
    """Copies of the sockets on which this process listens at that port. gRPC does not expose them,
    but any descriptor of a socket can set its options, and connections inherit those."""
    try:
        descriptors = [int(entry) for entry in os.listdir("/proc/self/fd")]
    except OSError:
        return
    for descriptor in descriptors:
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            sock = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            continue  # closed meanwhile
        if _listens(sock, port):
            yield sock
        else:
            sock.close()


def _listens(sock: socket.socket, port: int) -> bool:
    try:
        name: Any = sock.getsockname()
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError:
        return False
    return bool(listens) and isinstance(name, tuple) and name[1] == port


def require_packages() -> None:
    for module, package in _PACKAGES.items():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise MissingError(
                "transport.package-missing",
                f"serving gRPC needs the package `{package}`, which is not installed",
                hint='pip install "torvyn[grpc]"',
            ) from error
