"""The wire of a gRPC call: one message a frame, serialized once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from torvyn.protocol.encoder import Dialect
from torvyn.protocol.proto_encoder import ProtoEncoder, messages, respelled
from torvyn.transport.caller import Caller
from torvyn.transport.wire import Wire


class GrpcWire(Wire):
    """The answer to a call. `leave` is what its handler says when the client has gone."""

    __slots__ = ("_context", "_left", "_turn", "has_begun", "has_ended")

    def __init__(self, context: Any, request_id: str, caller: Caller) -> None:
        super().__init__(request_id, caller, self._write)
        self._context = context
        self._left = asyncio.Event()
        # A heartbeat may be on its way, and gRPC takes one message at a time.
        self._turn = asyncio.Lock()
        self.has_begun = False
        self.has_ended = False
        """The last frame was sent, or is about to be."""

    @property
    def is_left(self) -> bool:
        return self._left.is_set()

    def leave(self) -> None:
        self._left.set()

    def encoder(self, dialect: Dialect, **identity: Any) -> ProtoEncoder:
        return ProtoEncoder(**identity)

    def pack(self, frames: Sequence[bytes], is_last: bool = False) -> list[bytes]:
        self.has_ended = is_last
        return list(messages(frames))

    def spell(self, frame: bytes, event_id: str) -> bytes:
        return respelled(frame, event_id.rpartition("-")[0])

    async def begin(self, headers: Mapping[str, str]) -> None:
        self.has_begun = True
        try:
            await self._context.send_initial_metadata((("x-request-id", self.request_id),))
        except grpc.aio.BaseError:
            self.leave()

    async def until_left(self) -> None:
        await self._left.wait()

    @property
    def is_stuck(self) -> bool:
        """A message was on its way when its sender was cut off."""
        return self._turn.locked()

    async def _write(self, packed: list[bytes]) -> None:
        await self._turn.acquire()
        try:
            for message in packed:
                await self._context.write(message)
        except asyncio.CancelledError:
            # gRPC still has the message, and takes no other: the turn is never given on.
            raise
        except grpc.aio.BaseError as error:
            self._turn.release()
            raise ConnectionResetError("the call is over") from error
        self._turn.release()
