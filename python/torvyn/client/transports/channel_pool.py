"""The transports on which one connection carries many streams: connections are made when they are
needed and shared while they last."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.failures import ServerError
from torvyn.client.transports.channel import CREDIT, Channel, Link, Strand
from torvyn.client.transports.transport import Cut, Opening

MOST_STREAMS: Final = 48
"""Of one connection; a server allows some more."""
_ALL_READ: Final = "session.all-read"
_UNKNOWN: Final = "transport.stream-unknown"


class Channels:
    """A wire over channels. `connect` makes a link on the running loop."""

    def __init__(self, name: str, connect: Callable[[], Awaitable[Link]], address: Address) -> None:
        self.name = name
        self._connect = connect
        self._idle_s = address.idle_timeout_s
        self._where = address.where
        self._made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Channel]] = (
            weakref.WeakKeyDictionary()
        )
        self._connecting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )

    async def open(self, opening: Opening) -> Strand | None:
        while True:
            channel, is_new = await self._channel()
            strand = channel.strand(is_kept=_is_kept(opening))
            try:
                await channel.send(_record(opening, strand.stream_id))
                await strand.begun()
            except ServerError as refusal:
                if refusal.code == _ALL_READ:
                    return None
                raise
            except Cut:
                # A connection that was there may have ended meanwhile: the next is a new one.
                if is_new:
                    raise
            except BaseException:
                strand.close()
                raise
            else:
                return strand

    async def end(self, id: str, *, cancel: bool) -> bool:
        record = {"type": "cancel" if cancel else "stop"}
        found = self._found(id)
        try:
            if found is None:
                return await self._end_elsewhere(id, record)
            refusal = await self._steered(found, record)
        except ServerError as error:
            refusal = error
        if refusal is not None and refusal.code != _UNKNOWN:
            raise refusal
        return refusal is None

    async def update(self, id: str, changes: Mapping[str, Any]) -> None:
        found = self._found(id)
        if found is None:
            raise failures.cut("it is not connected", self._where)
        if (refusal := await self._steered(found, {"type": "update", **changes})) is not None:
            raise refusal

    async def aclose(self) -> None:
        for channel in self._made.pop(asyncio.get_running_loop(), []):
            await channel.aclose()

    async def _end_elsewhere(self, id: str, record: dict[str, Any]) -> bool:
        """One that comes on no connection of ours is come back to, in order to end it."""
        strand = await self.open(Opening("resume", id=id))
        if strand is None or (found := self._found(id)) is None:
            return False
        try:
            return await self._steered(found, record) is None
        finally:
            strand.close()

    async def _steered(
        self, found: tuple[Channel, Strand], record: dict[str, Any]
    ) -> ServerError | None:
        channel, strand = found
        try:
            return await channel.steer({**record, "stream_id": strand.stream_id})
        except (Cut, TimeoutError) as error:
            raise failures.cut(str(error) or "it does not answer", self._where) from error

    def _found(self, id: str) -> tuple[Channel, Strand] | None:
        for channel in self._made.get(asyncio.get_running_loop(), []):
            if (strand := channel.named(id)) is not None:
                return channel, strand
        return None

    async def _channel(self) -> tuple[Channel, bool]:
        """One with room; and whether it was made for this."""
        loop = asyncio.get_running_loop()
        async with self._connecting.setdefault(loop, asyncio.Lock()):
            channels = [one for one in self._made.get(loop, []) if not one.is_over]
            self._made[loop] = channels
            for channel in channels:
                if channel.load < MOST_STREAMS:
                    return channel, False
            channel = Channel(await self._connect(), self._idle_s)
            channels.append(channel)
            return channel, True


def _is_kept(opening: Opening) -> bool:
    """Whether it outlives its strand, so that closing that says nothing about it."""
    return opening.kind == "resume" or bool(opening.body and opening.body.get("stateful"))


def _record(opening: Opening, stream_id: str) -> dict[str, Any]:
    record: dict[str, Any] = {"stream_id": stream_id, "credit": CREDIT}
    if opening.kind == "ask":
        return {"type": "start", **record, **(opening.body or {})}
    record |= {"type": opening.kind, "id": opening.id}
    if opening.kind == "resume" and opening.after is not None:
        record["after"] = str(opening.after)
    return record
