"""Streams without a session that are observed at another server.

Their frames are kept nowhere, so the observing server asks the one that generates them for more,
again and again. One answer is on its way at a time: an observer that is slow gets the number of
frames that it missed, and slows nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.nats import BrokerUnavailable
from torvyn.protocol.encoder import Encoder
from torvyn.transport.access.caller import Caller
from torvyn.transport.rejection import unknown_stream
from torvyn.transport.sessions.frame_buffer import FrameBuffer
from torvyn.transport.sessions.observer_tap import LIMIT_BYTES
from torvyn.transport.sessions.replay import generation_lost
from torvyn.transport.sessions.servers.control import ALL, NoAnswer
from torvyn.transport.sessions.shared.patience import broker_away

if TYPE_CHECKING:
    from torvyn.errors import TorvynError
    from torvyn.transport.dispatch.running_calls import RunningCalls
    from torvyn.transport.sessions.servers.control import Control, Fields

_ANYONE_S: Final = 0.5
"""How long all servers have to say that a stream is theirs."""
_WAIT_S: Final = 1.0
"""How long a server waits for frames before it says that there are none."""
_KEEP_S: Final = 10.0
"""How long a server keeps the last frames of an observed stream, after it was asked for them."""


@dataclass(slots=True)
class _Observed:
    tenant: str
    buffer: FrameBuffer
    epoch: str
    timer: asyncio.TimerHandle | None = None


class RemoteTaps:
    def __init__(self, control: Control, running: RunningCalls) -> None:
        self._control = control
        self._running = running
        self._observed: dict[str, _Observed] = {}
        control.handlers["frames"] = self._on_request

    # At the server that observes

    @contextlib.asynccontextmanager
    async def observed(self, id: str, caller: Caller) -> AsyncIterator[tuple[FrameBuffer, str]]:
        """The frames of a stream of another server, from now on, and their epoch. Raises a
        rejection if no server has it."""
        fields = {"id": id, "tenant": caller.tenant}
        try:
            found = await self._control.ask(ALL, "frames", _ANYONE_S, seq=None, **fields)
        except NoAnswer:
            raise unknown_stream() from None
        except BrokerUnavailable:
            raise broker_away() from None
        buffer = FrameBuffer(LIMIT_BYTES)
        _take(buffer, found)
        reading = asyncio.ensure_future(self._read(buffer, found, fields))
        try:
            yield buffer, found["epoch"]
        finally:
            reading.cancel()

    async def _read(self, buffer: FrameBuffer, found: dict[str, Any], fields: Fields) -> None:
        server = found["server"]
        try:
            while not buffer.is_over:
                _take(buffer, await self._control.ask(server, "frames", seq=buffer.next, **fields))
        except NoAnswer:
            lost = generation_lost("the server that generated the answer has ended")
            _end(buffer, found["epoch"], lost)
        except BrokerUnavailable:
            _end(buffer, found["epoch"], broker_away())

    # At the server that generates

    async def _on_request(self, fields: Fields) -> dict[str, Any] | None:
        """A server that does not have the stream says nothing."""
        observed = self._find(fields["id"], fields["tenant"])
        if observed is None:
            return None
        self._keep(fields["id"], observed)
        buffer, seq = observed.buffer, fields["seq"]
        if seq is None:
            seq = buffer.first
        elif seq >= buffer.next and not buffer.is_over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(buffer.changed(), _WAIT_S)
        first = max(seq, buffer.first)
        return {
            "server": self._control.server,
            "epoch": observed.epoch,
            "start": (buffer.start or b"").decode(),
            "first": first,
            "frames": [frame.decode() for frame in buffer.take(first, LIMIT_BYTES)],
            "is_over": buffer.is_over,
        }

    def _find(self, id: str, tenant: str) -> _Observed | None:
        from torvyn.transport.answer_stream import AnswerStream

        observed = self._observed.get(id)
        if observed is not None:
            return observed if observed.tenant == tenant else None
        call = self._running.find(id, Caller(tenant=tenant))
        if not isinstance(call, AnswerStream):
            return None
        return _Observed(tenant, call.tap.buffer, call.tap.epoch)

    def _keep(self, id: str, observed: _Observed) -> None:
        if observed.timer is not None:
            observed.timer.cancel()
        self._observed[id] = observed
        loop = asyncio.get_running_loop()
        observed.timer = loop.call_later(_KEEP_S, self._observed.pop, id, None)


def _take(buffer: FrameBuffer, found: dict[str, Any]) -> None:
    first, frames = found["first"], [frame.encode() for frame in found["frames"]]
    if buffer.start is None or first > buffer.next:
        # The frames between were dropped before this server had asked for them.
        buffer.replace(found["start"].encode(), first, frames)
    else:
        for frame in frames[buffer.next - first :]:
            buffer.add(frame)
    # All that the other server has is in one answer, so nothing follows.
    if found["is_over"]:
        buffer.end()


def _end(buffer: FrameBuffer, epoch: str, error: TorvynError) -> None:
    encoder = Encoder("torvyn", "json", id="", flow="", created=0, epoch=epoch)
    last = buffer.next - 1
    buffer.add(encoder.error(error.code, error.message, False, last + 1))
    buffer.add(encoder.end([(0, "error", None, None, None)], None, None, last + 2))
    buffer.end()
