"""A channel's connection over gRPC: one call of `torvyn.v1.Inference/Session` for many streams."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from torvyn._io.backoff import retry_after_s
from torvyn.client import failures
from torvyn.client.address import Address, unusable_ca
from torvyn.client.transports.channel import ChannelConnection, ServerMessage
from torvyn.client.transports.transport import ConnectionLost
from torvyn.errors import MissingError, install_hint

try:
    import grpc

    from torvyn.client.transports.grpc_messages import client_message, server_message
    from torvyn.v1 import inference_pb2 as pb
except ImportError as error:
    raise MissingError(
        "client.package-missing",
        f"a client over gRPC needs the package `{error.name}`",
        hint=install_hint("grpc"),
    ) from None

_SESSION: Final = "/torvyn.v1.Inference/Session"
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_ACCEPTED: Final = "x-request-id"
"""A Torvyn server sends it when it accepts a call, not when it rejects one."""
_STATUS_S: Final = 1.0
_MESSAGE_LIMIT_BYTES: Final = 8 << 20
_OPTIONS: Final = [
    # A failed attempt must not delay the next one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT_BYTES),
]


async def connect(address: Address) -> GrpcConnection:
    channel = await _open_channel(address)
    method = channel.stream_stream(
        _SESSION,
        request_serializer=pb.ClientMessage.SerializeToString,
        response_deserializer=pb.ServerMessage.FromString,
    )
    connection = GrpcConnection(channel, method(metadata=_metadata(address)), address)
    try:
        async with asyncio.timeout(address.idle_timeout_s):
            await connection.wait_accepted()
    except TimeoutError:
        await connection.aclose()
        raise ConnectionLost(f"no answer within {address.idle_timeout_s:g} s") from None
    except BaseException:
        await connection.aclose()
        raise
    return connection


async def health(address: Address) -> str:
    """The server's status, by gRPC's health service."""
    channel = await _open_channel(address)
    try:
        check = channel.unary_unary(_HEALTH)
        response = await check(b"", metadata=_metadata(address), timeout=address.idle_timeout_s)
    except grpc.aio.AioRpcError as error:
        raise _call_error(error, address) from error
    finally:
        await channel.close()
    return "ready" if response == b"\x08\x01" else "shutting down"


async def _open_channel(address: Address) -> Any:
    """A connected channel; the first failure ends the attempt."""
    channel = _channel(address)
    try:
        async with asyncio.timeout(address.connect_timeout_s):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    raise failures.unreachable("the connection failed", address.name)
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        await channel.close()
        raise failures.unreachable("it does not answer", address.name) from None
    except BaseException:
        await channel.close()
        raise
    return channel


def _channel(address: Address) -> Any:
    if not address.is_secure:
        return grpc.aio.insecure_channel(address.netloc, options=_OPTIONS)
    if not address.verify:
        hint = "pass the certificates to trust as `ca`"
        raise failures.bad_option("`verify=False` is not possible over gRPC", hint)
    roots = None
    if address.ca is not None:
        try:
            roots = Path(address.ca).read_bytes()
        except OSError as error:
            raise unusable_ca(address.ca, error) from None
    credentials = grpc.ssl_channel_credentials(root_certificates=roots)
    return grpc.aio.secure_channel(address.netloc, credentials, options=_OPTIONS)


def _metadata(address: Address) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in address.headers.items())


def _call_error(error: Any, address: Address) -> Exception:
    """The status of a call as an error: a rejection, or the loss of the connection."""
    trailers = {str(name): value for name, value in error.trailing_metadata() or ()}
    code = trailers.get("torvyn-code")
    if not isinstance(code, str):
        return ConnectionLost(
            failures.sanitize(error.details() or "", address.key) or error.code().name
        )
    record = {"code": code, "message": error.details(), "retryable": "retry-after" in trailers}
    rejection = failures.error_from_record(record, address.key)
    rejection.retry_after_s = retry_after_s(str(trailers.get("retry-after", "")))
    rejection.request_id = str(trailers.get("x-request-id", "")) or None
    return rejection


class GrpcConnection(ChannelConnection):
    def __init__(self, channel: Any, call: Any, address: Address) -> None:
        self._channel = channel
        self._call = call
        self._address = address

    async def wait_accepted(self) -> None:
        """Waits until the server has accepted the call; raises its rejection. Nothing is written
        before: gRPC forgets why a call was rejected if a write fails."""
        try:
            metadata = {name for name, _ in await self._call.initial_metadata() or ()}
            if _ACCEPTED not in metadata:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self._call.code()), _STATUS_S)
            if self._call.done():
                await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _call_error(error, self._address) from error

    async def send(self, record: dict[str, Any]) -> None:
        message = client_message(record)
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise _call_error(error, self._address) from error
        except asyncio.InvalidStateError:
            raise ConnectionLost("the call has ended") from None

    async def receive(self) -> ServerMessage:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _call_error(error, self._address) from error
        if message is grpc.aio.EOF:
            raise ConnectionLost("the call ended")
        return server_message(message, self._address.key)

    async def aclose(self) -> None:
        self._call.cancel()
        await self._channel.close()
