"""One connection that many streams share: what a WebSocket and a gRPC session have in common.

A link sends records and gives what the server says; the channel hands each message to its strand.
A strand holds no more frames than it has granted, so that a slow reader holds up itself alone. Who
steers a stream asks for a pong behind it: what is refused, is refused before that.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from torvyn.client.failures import ServerError
from torvyn.client.transports.transport import Cut
from torvyn.errors import TorvynError
from torvyn.protocol.frames import EndFrame, Frame, HeartbeatFrame, StartFrame

CREDIT: Final = 256
"""Frames that a strand may be ahead of its reader."""
_DROPS: Final = ("transport.credit-withheld", "transport.stream-left")
"""Refusals that end a stream which had begun; others answer to what steered it."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the server: a frame, or one of the few other things."""

    kind: Literal["frame", "refused", "pong", "other"]
    stream_id: str | None = None
    frame: Frame | None = None
    epoch: str | None = None
    refusal: ServerError | None = None


class Link(ABC):
    """The connection itself."""

    @abstractmethod
    async def send(self, record: dict[str, Any]) -> None:
        """Raises `Cut` when nobody is there."""

    @abstractmethod
    async def receive(self) -> Said:
        """Raises `Cut` at its end; or why the server does not want it."""

    @abstractmethod
    async def aclose(self) -> None: ...


class Strand:
    """One stream's part of a channel."""

    def __init__(self, channel: Channel, stream_id: str, *, is_kept: bool) -> None:
        self.stream_id = stream_id
        self.id: str | None = None
        self.epoch: str | None = None
        self._channel = channel
        self._is_kept = is_kept
        self._frames: deque[Frame] = deque()
        self._changed = asyncio.Event()
        self._failure: Cut | TorvynError | None = None
        self._ungranted = 0
        self.is_closed = False
        self.is_over = False
        """Nothing more of it comes."""

    async def begun(self) -> None:
        """Until there is something to read; raises when there will be nothing."""
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            self._changed.clear()
            await self._changed.wait()

    async def read(self) -> Sequence[Frame]:
        await self.begun()
        frames = list(self._frames)
        self._frames.clear()
        await self._grant(sum(not isinstance(frame, HeartbeatFrame) for frame in frames))
        return frames

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._frames.clear()
        self.fail(Cut("it was closed"))
        if not self.is_over and not self._is_kept:
            self._channel.tell({"type": "cancel", "stream_id": self.stream_id})

    def take(self, frame: Frame) -> None:
        if isinstance(frame, EndFrame):
            self.is_over = True
        # One heartbeat says as much as two.
        if isinstance(frame, HeartbeatFrame) and self._frames:
            return
        if not self.is_closed:
            self._frames.append(frame)
            self._changed.set()

    def fail(self, failure: Cut | TorvynError) -> None:
        """After what has arrived, this."""
        self._failure = self._failure or failure
        self._changed.set()

    async def _grant(self, count: int) -> None:
        self._ungranted += count
        if self._ungranted >= CREDIT // 2 and not self.is_over:
            granted, self._ungranted = self._ungranted, 0
            record = {"type": "credit", "stream_id": self.stream_id, "frames": granted}
            with contextlib.suppress(Cut):  # the next read says so
                await self._channel.send(record)


class Channel:
    """Strands of one link."""

    def __init__(self, link: Link, idle_timeout_s: float) -> None:
        self._link = link
        self._idle_s = idle_timeout_s
        self._strands: dict[str, Strand] = {}
        self._replies: deque[_Reply] = deque()
        self._turn = asyncio.Lock()
        self._count = 0
        self._telling: set[asyncio.Future[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._loop.time()
        self.is_over = False
        self._reader = asyncio.ensure_future(self._read())
        self._watching = self._loop.call_later(idle_timeout_s, self._watch)

    @property
    def load(self) -> int:
        """How many streams run on it."""
        return len(self._strands)

    def strand(self, *, is_kept: bool) -> Strand:
        self._count += 1
        strand = Strand(self, f"s{self._count}", is_kept=is_kept)
        self._strands[strand.stream_id] = strand
        return strand

    def named(self, id: str) -> Strand | None:
        """The strand on which the answer with that id comes."""
        return next((s for s in self._strands.values() if s.id == id and not s.is_over), None)

    async def send(self, *records: dict[str, Any], reply: _Reply | None = None) -> None:
        """One after the other, and nothing in between. Who stops waiting does not stop it: half a
        message would end the connection for all."""
        await asyncio.shield(asyncio.ensure_future(self._send(records, reply)))

    async def _send(self, records: Sequence[dict[str, Any]], reply: _Reply | None) -> None:
        async with self._turn:
            if self.is_over:
                raise Cut("the connection ended")
            if reply is not None:
                self._replies.append(reply)
            for record in records:
                await self._link.send(record)

    def tell(self, record: dict[str, Any]) -> None:
        """Sends it, some time soon, if anybody is there."""
        self._telling.add(task := asyncio.ensure_future(self._told(record)))
        task.add_done_callback(self._telling.discard)

    async def steer(self, record: dict[str, Any]) -> ServerError | None:
        """Says it, and gives what the server has against it."""
        reply = _Reply(record["stream_id"], self._loop.create_future())
        await self.send(record, {"type": "ping"}, reply=reply)
        async with asyncio.timeout(self._idle_s):
            return await reply.future

    def _watch(self) -> None:
        """Ends it when nothing at all was heard for too long: there is one clock for all strands,
        and who thinks on one of them is not taken for dead while another is busy."""
        left_s = self._heard_s + self._idle_s - self._loop.time()
        if left_s > 0:
            self._watching = self._loop.call_later(left_s, self._watch)
        else:
            self._end(Cut(f"it sent nothing for {self._idle_s:g} s, not even a heartbeat"))
            self._reader.cancel()

    async def aclose(self) -> None:
        if self._telling:
            await asyncio.wait(self._telling, timeout=1.0)
        self._end(Cut("the client was closed"))
        self._reader.cancel()
        await asyncio.wait({self._reader})

    async def _told(self, record: dict[str, Any]) -> None:
        with contextlib.suppress(Cut):
            await self.send(record)

    async def _read(self) -> None:
        try:
            while True:
                said = await self._link.receive()
                self._heard_s = self._loop.time()
                self._hand_on(said)
        except (Cut, TorvynError) as error:
            self._end(error)
        finally:
            await self._link.aclose()

    def _hand_on(self, said: Said) -> None:
        strand = self._strands.get(said.stream_id or "")
        if said.kind == "pong" and self._replies:
            self._replies.popleft().give()
        elif isinstance(said.frame, HeartbeatFrame):
            for each in self._strands.values():
                each.take(said.frame)
        elif strand is not None and said.frame is not None:
            if isinstance(said.frame, StartFrame):
                strand.id, strand.epoch = said.frame.id, said.epoch
            strand.take(said.frame)
            self._forget(strand)
        elif said.refusal is not None:
            self._refused(said.refusal, said.stream_id, strand)

    def _refused(self, refusal: ServerError, stream_id: str | None, strand: Strand | None) -> None:
        is_steered = strand is None or (strand.id is not None and refusal.code not in _DROPS)
        reply = next((one for one in self._replies if one.stream_id == stream_id), None)
        if is_steered and reply is not None:
            reply.refusal = refusal
        elif strand is not None and not is_steered:
            # Who was too slow may come back; who never began, may not.
            has_begun = strand.id is not None
            strand.is_over = True
            strand.fail(Cut(refusal.message) if has_begun else refusal)
            self._forget(strand)

    def _forget(self, strand: Strand) -> None:
        if strand.is_over:
            self._strands.pop(strand.stream_id, None)

    def _end(self, why: Cut | TorvynError) -> None:
        self.is_over = True
        self._watching.cancel()
        for strand in self._strands.values():
            strand.fail(why)
        self._strands.clear()
        while self._replies:
            self._replies.popleft().fail(why)


class _Reply:
    """To what steered a stream."""

    def __init__(self, stream_id: str, future: asyncio.Future[ServerError | None]) -> None:
        self.stream_id = stream_id
        self.future = future
        self.refusal: ServerError | None = None

    def give(self) -> None:
        if not self.future.done():
            self.future.set_result(self.refusal)

    def fail(self, why: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(why)
