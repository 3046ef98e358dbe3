"""A conversation: the streams of one channel, started and steered by messages of its client.

It takes records and sends frames, and knows neither how they are spelled nor what they travel over.
Whoever leaves the channel leaves all of its streams: every engine hears of it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol import traceparent
from torvyn.transport import request_body
from torvyn.transport.frame_sender import Outlet
from torvyn.transport.multiplex import client_message
from torvyn.transport.multiplex.channel import Channel, ChannelStream
from torvyn.transport.rejection import Rejection, shutting_down, torvyn_error_body, unknown_stream

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.call import Call

logger = logging.getLogger("torvyn.transport")

MOST_STREAMS: Final = 64
"""Of one channel; who needs more opens another."""
Work = Coroutine[Any, Any, None]
Close = Callable[[], Awaitable[None]]


class Multiplexer:
    """`hold` once; meanwhile `take` is given what the client says."""

    def __init__(
        self, application: Application, channel: Channel, traceparent: str | None = None
    ) -> None:
        """`traceparent`: what its client began; without, each stream is a trace of its own."""
        self.application = application
        self.channel = channel
        self._traceparent = traceparent
        self.strands: dict[str, ChannelStream] = {}
        """Those that can be spoken of, by the ids that the client gave them."""
        self._running: set[ChannelStream] = set()
        """Those, and such whose last is on its way."""
        self.outlet = Outlet(
            channel, application.settings, lambda: channel.note("heartbeat"), self._end
        )
        self.ended: Rejection | None = None
        """Why it ended, where that was not its client's doing."""
        self._over = asyncio.Event()
        self._ending: Callable[[], Rejection] | None = None
        self._saying: asyncio.Future[None] | None = None

    async def hold(self, reading: Work, close: Close | None = None) -> None:
        """Until `reading` returns, which it does when nobody is there any more, or nobody takes
        what is sent, or the server ends and the last stream with it. Then it is closed."""
        with self.application.held.hold(self):
            await self.channel.begin({})
            reader = asyncio.ensure_future(reading)
            reader.add_done_callback(self._was_read)
            self.outlet.open()
            try:
                await self._over.wait()
            except asyncio.CancelledError:
                if not self.outlet.absorb():
                    raise
            finally:
                self.outlet.close()
                reader.cancel()
                tasks = self._leave()
                await asyncio.wait({reader, *tasks})
            if close is not None:
                await close()

    async def take(self, message: Mapping[str, Any]) -> None:
        """What the client says. What cannot be done is refused, and nothing else suffers."""
        try:
            kind = client_message.kind(message)
            if kind == "ping":
                await self.outlet.deliver(self.channel.note("pong"))
                return
            _VERBS[kind](self, client_message.stream_id(message), message)
        except Exception as error:
            await self.refuse(error, client_message.named(message))

    async def refuse(self, raised: Exception, stream_id: str | None = None) -> None:
        """Says what did not become a stream, or does not go on as one."""
        error, words = self.application.explained(raised, self.channel.request_id)
        body = torvyn_error_body(error, words)["error"]
        await self.outlet.deliver(self.channel.note("refused", stream_id, **body))

    def drain(self) -> None:
        """The server ends: what runs may end by itself, and with it the channel."""
        self.dismiss(shutting_down)

    def dismiss(self, reason: Callable[[], Rejection]) -> None:
        """Nothing more is begun; it ends with the last stream."""
        self._ending = self._ending or reason
        self._settle()

    def hurry(self) -> None:
        """What has to be said is said without waiting for credit."""
        for strand in self._running:
            strand.hurry()

    # What can be said

    def _start(self, stream_id: str, message: Mapping[str, Any]) -> None:
        request = request_body.parse_torvyn(client_message.body(message))
        strand = self._new(stream_id, message)
        self._go(strand, self.application.answer(strand, request))

    def _resume(self, stream_id: str, message: Mapping[str, Any]) -> None:
        id, after = client_message.answer_id(message), client_message.text(message, "after")
        strand = self._new(stream_id, message)
        self._go(strand, self.application.resume(strand, id, after))

    def _observe(self, stream_id: str, message: Mapping[str, Any]) -> None:
        id = client_message.answer_id(message)
        strand = self._new(stream_id, message)
        self._go(strand, self.application.observe(strand, id))

    def _stop(self, stream_id: str, message: Mapping[str, Any]) -> None:
        self._end_one(stream_id, is_cancelled=message["type"] == "cancel")

    def _update(self, stream_id: str, message: Mapping[str, Any]) -> None:
        changes = client_message.changes(message)
        call = self._call(self._strand(stream_id))
        if call is None:
            raise request_body.invalid("a stream can be changed after its `start` frame has come")
        call.update(**changes)

    def _credit(self, stream_id: str, message: Mapping[str, Any]) -> None:
        frames = client_message.frames(message)
        # A stream may have ended while the grant was on its way: that is no mistake.
        if (strand := self.strands.get(stream_id)) is not None:
            strand.grant(frames)

    # The streams

    def _new(self, stream_id: str, message: Mapping[str, Any]) -> ChannelStream:
        if self._ending is not None:
            raise self._ending()
        if stream_id in self.strands:
            words = f"a stream {stream_id!r} runs on this connection"
            hint = "an id can be used again when its stream has ended"
            raise Rejection(409, "transport.stream-id-taken", words, hint=hint)
        if len(self._running) >= MOST_STREAMS:
            words = f"{MOST_STREAMS} streams run on this connection, and that is the limit"
            raise Rejection(429, "transport.channel-full", words, hint="open another connection")
        settings = self.application.settings
        strand = ChannelStream(
            self.channel,
            self.outlet,
            stream_id,
            client_message.credit(message),
            settings.write_timeout_s,
            self._withheld,
            self._unlist,
        )
        self.strands[stream_id] = strand
        return strand

    def _go(self, strand: ChannelStream, work: Work) -> None:
        def went(task: asyncio.Future[None]) -> None:
            work.close()  # it was never begun, should the task have been cancelled before
            self._unlist(strand)
            self._running.discard(strand)
            if strand.dropped is not None and not self._over.is_set():
                self._saying = asyncio.ensure_future(self.refuse(strand.dropped, strand.stream_id))
            self._settle()

        self._running.add(strand)
        strand.task = asyncio.ensure_future(self._run(strand, work))
        strand.task.add_done_callback(went)

    async def _run(self, strand: ChannelStream, work: Work) -> None:
        # Of this task's context alone.
        traceparent.CURRENT.set(traceparent.begin(self._traceparent, self.application.sample_rate))
        try:
            await work
        except Exception as error:
            self._unlist(strand)
            await self.refuse(error, strand.stream_id)

    def _unlist(self, strand: ChannelStream) -> None:
        """Whoever hears of its end may use its id again."""
        if self.strands.get(strand.stream_id) is strand:
            del self.strands[strand.stream_id]

    def _strand(self, stream_id: str) -> ChannelStream:
        strand = self.strands.get(stream_id)
        if strand is None:
            raise unknown_stream()
        return strand

    def _call(self, strand: ChannelStream) -> Call | None:
        """What is made for it; None while it waits, and for who only watches."""
        id = strand.answer_id
        return None if id is None else self.application.call(id, strand.caller)

    def _end_one(self, stream_id: str, is_cancelled: bool) -> None:
        strand = self._strand(stream_id)
        call = self._call(strand)
        if call is not None:
            call.cancel() if is_cancelled else call.stop()
            strand.hurry()
        elif strand.answer_id is None:
            self._drop(strand, Rejection(409, "transport.stream-left", _LEFT))

    def _drop(self, strand: ChannelStream, reason: Rejection) -> None:
        """No more of it comes here: it never began, or goes on without this client."""
        strand.dropped = reason
        strand.leave()
        if strand.task is not None:
            strand.task.cancel()

    def _withheld(self, strand: ChannelStream) -> None:
        seconds = self.application.settings.write_timeout_s
        words = f"the client granted no frame for {seconds:g} s"
        reason = Rejection(408, "transport.credit-withheld", words, hint="`credit` grants frames")
        call = self._call(strand)
        if call is not None and call.wire is strand:
            call.fail(reason)
        else:
            self._drop(strand, reason)

    # The end

    def _settle(self) -> None:
        if self._ending is not None and not self._running and not self._over.is_set():
            self.ended = self._ending()
            self._end()

    def _end(self) -> None:
        self._over.set()

    def _was_read(self, reader: asyncio.Future[None]) -> None:
        if not reader.cancelled() and (error := reader.exception()) is not None:
            logger.error("request %s failed", self.channel.request_id, exc_info=error)
        self._end()

    def _leave(self) -> list[asyncio.Future[None]]:
        """Leaves every stream; gives the tasks that are about to end."""
        self._end()
        self.outlet.is_left = True
        self.channel.let_go()
        tasks = []
        for strand in self._running:
            call = self._call(strand)
            if call is not None and call.wire is strand:
                call.leave()
            strand.leave()
            if strand.task is not None:
                tasks.append(strand.task)
                if strand.answer_id is None:
                    # It waits for a place.
                    strand.task.cancel()
        return tasks


_LEFT: Final = "no more of it comes, as the client asked"
_VERBS: Final = {
    "start": Multiplexer._start,
    "stop": Multiplexer._stop,
    "cancel": Multiplexer._stop,
    "update": Multiplexer._update,
    "credit": Multiplexer._credit,
    "resume": Multiplexer._resume,
    "observe": Multiplexer._observe,
}
