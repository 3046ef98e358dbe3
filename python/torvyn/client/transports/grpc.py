"""A gRPC session as a link: `torvyn.v1.Inference/Session`, one call for many streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any, Final

from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.transports.channel import Link, Said
from torvyn.client.transports.transport import Cut
from torvyn.errors import MissingError

try:
    import grpc

    from torvyn.client.transports.grpc_messages import message_of, said_of
    from torvyn.v1 import inference_pb2 as pb
except ImportError as error:
    raise MissingError(
        "client.package-missing",
        f"a client over gRPC needs the package `{error.name}`",
        hint="pip install 'torvyn[grpc]'",
    ) from None

_SESSION: Final = "/torvyn.v1.Inference/Session"
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_TAKEN: Final = "x-request-id"
"""A server of ours says it when it takes a call, not when it refuses one."""
_STATUS_S: Final = 1.0
_MOST_BYTES: Final = 8 << 20
_OPTIONS: Final = [
    # One that could not connect a moment ago must not keep the next from trying.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", _MOST_BYTES),
]


async def connect(address: Address) -> GrpcLink:
    channel = await _connected(address)
    method = channel.stream_stream(
        _SESSION,
        request_serializer=pb.ClientMessage.SerializeToString,
        response_deserializer=pb.ServerMessage.FromString,
    )
    link = GrpcLink(channel, method(metadata=_metadata(address)), address)
    try:
        async with asyncio.timeout(address.idle_timeout_s):
            await link.accepted()
    except TimeoutError:
        await link.aclose()
        raise Cut(f"it did not answer within {address.idle_timeout_s:g} s") from None
    except BaseException:
        await link.aclose()
        raise
    return link


async def health(address: Address) -> str:
    """By gRPC's own service for that."""
    channel = await _connected(address)
    try:
        check = channel.unary_unary(_HEALTH)
        answer = await check(b"", metadata=_metadata(address), timeout=address.idle_timeout_s)
    except grpc.aio.AioRpcError as error:
        raise _failed(error, address) from error
    finally:
        await channel.close()
    return "ready" if answer == b"\x08\x01" else "shutting down"


async def _connected(address: Address) -> Any:
    """A channel that is there; the first failure ends the attempt, not the last."""
    channel = _channel(address)
    try:
        async with asyncio.timeout(address.connect_timeout_s):
            state = channel.get_state(try_to_connect=True)
            while state is not grpc.ChannelConnectivity.READY:
                if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    raise failures.unreachable("nobody answers there", address.where)
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        await channel.close()
        raise failures.unreachable("it does not answer", address.where) from None
    except BaseException:
        await channel.close()
        raise
    return channel


def _channel(address: Address) -> Any:
    if not address.is_secure:
        return grpc.aio.insecure_channel(address.place, options=_OPTIONS)
    if not address.verify:
        raise failures.bad_option("gRPC looks at certificates always", "name one to trust: `ca`")
    roots = None
    if address.ca is not None:
        try:
            roots = Path(address.ca).read_bytes()
        except OSError as error:
            why = error.strerror or error
            message = f"`ca` cannot be used: {os.fspath(address.ca)}: {why}"
            raise failures.bad_option(message) from None
    credentials = grpc.ssl_channel_credentials(root_certificates=roots)
    return grpc.aio.secure_channel(address.place, credentials, options=_OPTIONS)


def _metadata(address: Address) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in address.headers.items())


def _failed(error: Any, address: Address) -> Exception:
    """The status of a call: what the server has against it, or the end of the connection."""
    trailers = {str(name): value for name, value in error.trailing_metadata() or ()}
    code = trailers.get("torvyn-code")
    if not isinstance(code, str):
        return Cut(failures.shown(error.details() or "", address.key) or error.code().name)
    record = {"code": code, "message": error.details(), "retryable": "retry-after" in trailers}
    refusal = failures.refused_by(record, address.key)
    refusal.retry_after_s = failures.retry_after_s(str(trailers.get("retry-after", "")))
    refusal.request_id = str(trailers.get("x-request-id", "")) or None
    return refusal


class GrpcLink(Link):
    def __init__(self, channel: Any, call: Any, address: Address) -> None:
        self._channel = channel
        self._call = call
        self._address = address

    async def accepted(self) -> None:
        """Until the server has taken the call; raises what it has against it. Nothing is written
        before: gRPC forgets why a call was refused when a write fails."""
        try:
            metadata = {name for name, _ in await self._call.initial_metadata() or ()}
            if _TAKEN not in metadata:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self._call.code()), _STATUS_S)
            if self._call.done():
                await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _failed(error, self._address) from error

    async def send(self, record: dict[str, Any]) -> None:
        message = message_of(record)
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise _failed(error, self._address) from error
        except asyncio.InvalidStateError:
            raise Cut("the call is over") from None

    async def receive(self) -> Said:
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _failed(error, self._address) from error
        if message is grpc.aio.EOF:
            raise Cut("the call ended")
        return said_of(message, self._address.key)

    async def aclose(self) -> None:
        self._call.cancel()
        await self._channel.close()
