"""The transport for WebSocket and gRPC: opens channels as needed and shares them among streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from torvyn._io.per_loop import PerLoop
from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.failures import ServerError
from torvyn.client.transports.channel import CREDIT, Channel, ChannelConnection, ChannelStream
from torvyn.client.transports.transport import ConnectionLost, StreamRequest

STREAMS_PER_CHANNEL: Final = 48
"""The server allows some more."""
_ALL_READ: Final = "session.all-read"
_UNKNOWN: Final = "transport.stream-unknown"


class ChannelPool:
    """A transport over channels. `connect` opens a connection on the running loop."""

    def __init__(
        self, name: str, connect: Callable[[], Awaitable[ChannelConnection]], address: Address
    ) -> None:
        self.name = name
        self._connect = connect
        self._idle_s = address.idle_timeout_s
        self._server = address.name
        self._per_loop: PerLoop[_Channels] = PerLoop(lambda _: _Channels())

    async def open(self, request: StreamRequest) -> ChannelStream | None:
        while True:
            channel, is_new = await self._channel()
            stream = channel.new_stream(
                is_stateful=_is_stateful(request), is_new=request.kind == "start"
            )
            try:
                await channel.send(_record(request, stream.stream_id))
                await stream.wait_for_frame()
            except ServerError as rejection:
                if rejection.code == _ALL_READ:
                    return None
                raise
            except ConnectionLost:
                # An open channel may have ended meanwhile; the next one is new.
                if is_new:
                    raise
            except BaseException:
                stream.close()
                raise
            else:
                return stream

    async def end(self, id: str, *, cancel: bool) -> bool:
        record = {"type": "cancel" if cancel else "stop"}
        pair = self._find(id)
        try:
            if pair is None:
                return await self._end_elsewhere(id, record)
            rejection = await self._control(pair, record)
        except ServerError as error:
            rejection = error
        if rejection is not None and rejection.code != _UNKNOWN:
            raise rejection
        return rejection is None

    async def update(self, id: str, changes: Mapping[str, Any]) -> None:
        pair = self._find(id)
        if pair is None:
            raise failures.connection_lost("the stream is not connected", self._server)
        if (rejection := await self._control(pair, {"type": "update", **changes})) is not None:
            raise rejection

    async def aclose(self) -> None:
        here = self._per_loop.here()
        opened, here.opened = here.opened, []
        for channel in opened:
            await channel.aclose()

    async def _end_elsewhere(self, id: str, record: dict[str, Any]) -> bool:
        """Resumes a stream that no channel of ours carries, in order to end it."""
        stream = await self.open(StreamRequest("resume", id=id))
        if stream is None or (pair := self._find(id)) is None:
            return False
        try:
            return await self._control(pair, record) is None
        finally:
            stream.close()

    async def _control(
        self, pair: tuple[Channel, ChannelStream], record: dict[str, Any]
    ) -> ServerError | None:
        channel, stream = pair
        try:
            return await channel.control({**record, "stream_id": stream.stream_id})
        except (ConnectionLost, TimeoutError) as error:
            why = str(error) or "it does not answer"
            raise failures.connection_lost(why, self._server) from error

    def _find(self, id: str) -> tuple[Channel, ChannelStream] | None:
        for channel in self._per_loop.here().opened:
            if (stream := channel.find(id)) is not None:
                return channel, stream
        return None

    async def _channel(self) -> tuple[Channel, bool]:
        """A channel with capacity for one more stream, and whether it is new."""
        here = self._per_loop.here()
        async with here.connecting:
            here.opened = [one for one in here.opened if not one.is_over]
            for channel in here.opened:
                if channel.load < STREAMS_PER_CHANNEL:
                    return channel, False
            channel = Channel(await self._connect(), self._idle_s)
            here.opened.append(channel)
            return channel, True


class _Channels:
    """The channels of one loop; one is connected at a time."""

    def __init__(self) -> None:
        self.opened: list[Channel] = []
        self.connecting = asyncio.Lock()


def _is_stateful(request: StreamRequest) -> bool:
    """Whether the stream outlives its connection, so that closing must not cancel it."""
    return request.kind == "resume" or bool(request.body and request.body.get("stateful"))


def _record(request: StreamRequest, stream_id: str) -> dict[str, Any]:
    record: dict[str, Any] = {"stream_id": stream_id, "credit": CREDIT}
    if request.kind == "start":
        return {"type": "start", **record, **(request.body or {})}
    record |= {"type": request.kind, "id": request.id}
    if request.kind == "resume" and request.after is not None:
        record["after"] = str(request.after)
    return record
