"""The streams of one channel, started and controlled by messages of its client.

It takes records and sends frames; it knows neither their encoding nor the connection. When the
client leaves the channel, it leaves all of its streams, and every engine stops at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from torvyn.protocol import traceparent
from torvyn.transport import request_body
from torvyn.transport.frame_sender import FrameSender
from torvyn.transport.multiplex import client_message
from torvyn.transport.multiplex.channel import Channel, ChannelStream
from torvyn.transport.rejection import (
    Rejection,
    headers_of,
    limits_of,
    row_of,
    shutting_down,
    torvyn_error_body,
    unknown_stream,
)

if TYPE_CHECKING:
    from torvyn.transport.call import Call
    from torvyn.transport.dispatch.dispatcher import Dispatcher
    from torvyn.transport.sessions.servers.owner_link import OwnerLink
    from torvyn.transport.telemetry.request_log import RequestLog

logger = logging.getLogger("torvyn.transport")

MAX_STREAMS: Final = 64
"""Per channel; a client that needs more opens another connection."""
Work = Coroutine[Any, Any, None]
Close = Callable[[], Awaitable[None]]


class Multiplexer:
    """Call `run` once; meanwhile pass each message of the client to `handle`."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        request_log: RequestLog,
        channel: Channel,
        new_trace: Callable[[], traceparent.Trace] = traceparent.begin,
    ) -> None:
        """`new_trace` begins the span of a stream."""
        self.channel = channel
        self.streams: dict[str, ChannelStream] = {}
        """Those that messages can name, by the client's ids."""
        self.end_reason: Rejection | None = None
        """Why the server ended the channel; None if the client did."""
        self.sender = FrameSender(
            channel, dispatcher.settings, lambda: channel.control_message("heartbeat"), self._end
        )
        self._dispatcher = dispatcher
        self._request_log = request_log
        self._running = dispatcher.running
        self._write_timeout_s = dispatcher.settings.write_timeout_s
        self._new_trace = new_trace
        self._open: set[ChannelStream] = set()
        """`streams`, and those whose last frame is being sent."""
        self._ended = asyncio.Event()
        self._closing: Callable[[], Rejection] | None = None
        self._rejecting: asyncio.Future[None] | None = None

    async def run(self, reader: Work, close: Close | None = None) -> None:
        """Until `reader` returns because the client has left, the client stops reading, or the
        server drains and the last stream has ended. Then calls `close`."""
        with self._running.channels.register(self):
            await self.channel.open()
            reading = asyncio.ensure_future(reader)
            reading.add_done_callback(self._on_reader_done)
            self.sender.open()
            try:
                await self._ended.wait()
            except asyncio.CancelledError:
                if not self.sender.absorb_cut():
                    raise
            finally:
                self.sender.close()
                reading.cancel()
                tasks = self._leave_streams()
                await asyncio.wait({reading, *tasks})
            if close is not None:
                await close()

    async def handle(self, message: Mapping[str, Any]) -> None:
        """Does what the client's message says. A message that fails affects nothing else."""
        try:
            kind = client_message.kind(message)
            if kind == "ping":
                await self.sender.deliver(self.channel.control_message("pong"))
                return
            _HANDLERS[kind](self, client_message.stream_id(message), message)
        except Exception as error:
            await self.reject(error, client_message.optional_stream_id(message))

    async def reject(
        self, raised: Exception, stream_id: str | None = None, *, has_started: bool = False
    ) -> None:
        """Tells the client why a message was rejected or a stream ended. An answer that has started
        gets its line of the log when it ends; anything else gets one here."""
        error, message = self._dispatcher.errors.report(raised, self.channel.request_id)
        status = row_of(error).status
        if not has_started:
            self._log(error.code, status, stream_id)
        body = {**torvyn_error_body(error, message)["error"], "status": status}
        if (retry_after := headers_of(error).get("retry-after")) is not None:
            body["retry_after_s"] = int(retry_after)
        if limits := limits_of(error):
            body["limits"] = limits
        await self.sender.deliver(self.channel.control_message("refused", stream_id, **body))

    def _log(self, code: str, status: int, stream_id: str | None) -> None:
        """As a request of its own over HTTP is logged."""
        channel, trace = self.channel, traceparent.CURRENT.get()
        self._request_log.count("STREAM", channel.path, status)
        self._request_log.write(
            "STREAM",
            channel.path,
            status,
            None,
            request_id=channel.request_id,
            trace_id=None if trace is None else trace.trace_id,
            peer=channel.peer,
            summary={"error": code},
            stream_id=stream_id,
        )

    def drain(self) -> None:
        self.close_when_idle(shutting_down)

    def close_when_idle(self, reason: Callable[[], Rejection]) -> None:
        """Starts no more streams, and closes the channel after the last one."""
        self._closing = self._closing or reason
        self._close_if_idle()

    def hurry(self) -> None:
        """Sends what is left without waiting for credit."""
        for stream in self._open:
            stream.hurry()

    # The client's messages

    def _start(self, stream_id: str, message: Mapping[str, Any]) -> None:
        request = request_body.parse_torvyn(client_message.body(message))
        stream = self._new_stream(stream_id, message)
        self._spawn(stream, self._dispatcher.answer(stream, request))

    def _resume(self, stream_id: str, message: Mapping[str, Any]) -> None:
        id, after = client_message.answer_id(message), client_message.text(message, "after")
        stream = self._new_stream(stream_id, message)
        self._spawn(stream, self._dispatcher.resume(stream, id, after))

    def _observe(self, stream_id: str, message: Mapping[str, Any]) -> None:
        id = client_message.answer_id(message)
        stream = self._new_stream(stream_id, message)
        self._spawn(stream, self._dispatcher.observe(stream, id))

    def _stop(self, stream_id: str, message: Mapping[str, Any]) -> None:
        stream = self._stream(stream_id)
        call = self._call(stream)
        if call is not None:
            call.cancel() if message["type"] == "cancel" else call.stop()
            stream.hurry()
        elif (link := self._link(stream)) is not None:
            link.control(message["type"])
            stream.hurry()
        elif stream.answer_id is None:
            self._drop(stream, Rejection(409, "transport.stream-left", _STOPPED))

    def _update(self, stream_id: str, message: Mapping[str, Any]) -> None:
        changes = client_message.changes(message)
        stream = self._stream(stream_id)
        call, link = self._call(stream), self._link(stream)
        if call is not None:
            call.update(**changes)
        elif link is not None:
            link.control("update", **changes)
        else:
            raise request_body.invalid("a stream cannot be updated before its `start` frame")

    def _credit(self, stream_id: str, message: Mapping[str, Any]) -> None:
        frames = client_message.frames(message)
        # The stream may have ended while the message was on its way: that is not an error.
        if (stream := self.streams.get(stream_id)) is not None:
            stream.grant(frames)

    # The streams

    def _new_stream(self, stream_id: str, message: Mapping[str, Any]) -> ChannelStream:
        if self._closing is not None:
            raise self._closing()
        if stream_id in self.streams:
            text = f"the stream {stream_id!r} already runs on this connection"
            hint = "an id can be used again after its stream has ended"
            raise Rejection(409, "transport.stream-id-taken", text, hint=hint)
        if len(self._open) >= MAX_STREAMS:
            text = f"this connection already runs {MAX_STREAMS} streams, the maximum"
            raise Rejection(429, "transport.channel-full", text, hint="open another connection")
        stream = ChannelStream(
            self.channel,
            self.sender,
            stream_id,
            client_message.credit(message),
            self._write_timeout_s,
            self._on_credit_timeout,
            self._release_id,
        )
        self.streams[stream_id] = stream
        return stream

    def _spawn(self, stream: ChannelStream, work: Work) -> None:
        def done(task: asyncio.Future[None]) -> None:
            work.close()  # in case the task was cancelled before it began
            self._release_id(stream)
            self._open.discard(stream)
            if stream.drop_reason is not None and not self._ended.is_set():
                rejection = self.reject(stream.drop_reason, stream.stream_id)
                self._rejecting = asyncio.ensure_future(rejection)
            self._close_if_idle()

        self._open.add(stream)
        stream.task = asyncio.ensure_future(self._run_stream(stream, work))
        stream.task.add_done_callback(done)

    async def _run_stream(self, stream: ChannelStream, work: Work) -> None:
        traceparent.CURRENT.set(self._new_trace())  # in this task's context only
        try:
            await work
        except Exception as error:
            self._release_id(stream)
            has_started = stream.answer_id is not None
            await self.reject(error, stream.stream_id, has_started=has_started)

    def _release_id(self, stream: ChannelStream) -> None:
        """A client that receives the end of a stream may use its id again."""
        if self.streams.get(stream.stream_id) is stream:
            del self.streams[stream.stream_id]

    def _stream(self, stream_id: str) -> ChannelStream:
        stream = self.streams.get(stream_id)
        if stream is None:
            raise unknown_stream()
        return stream

    def _call(self, stream: ChannelStream) -> Call | None:
        """Its call; None while it waits for admission, and for observers."""
        id = stream.answer_id
        return None if id is None else self._running.find(id, stream.caller)

    def _link(self, stream: ChannelStream) -> OwnerLink | None:
        """To the server that generates its answer, if that is another one."""
        return self._dispatcher.link_of(stream.answer_id, stream.caller)

    def _drop(self, stream: ChannelStream, reason: Rejection) -> None:
        """Sends no more of it: it never began, or continues without this client."""
        stream.drop_reason = reason
        stream.leave()
        if stream.task is not None:
            stream.task.cancel()

    def _on_credit_timeout(self, stream: ChannelStream) -> None:
        text = f"the client granted no credit for {self._write_timeout_s:g} s"
        hint = "send `credit` messages to grant frames"
        reason = Rejection(408, "transport.credit-withheld", text, hint=hint)
        call = self._call(stream)
        if call is not None and call.wire is stream:
            call.fail(reason)
        else:
            self._drop(stream, reason)

    # The end

    def _close_if_idle(self) -> None:
        if self._closing is not None and not self._open and not self._ended.is_set():
            self.end_reason = self._closing()
            self._end()

    def _end(self) -> None:
        self._ended.set()

    def _on_reader_done(self, reading: asyncio.Future[None]) -> None:
        if not reading.cancelled() and (error := reading.exception()) is not None:
            logger.error("request %s failed", self.channel.request_id, exc_info=error)
        self._end()

    def _leave_streams(self) -> list[asyncio.Future[None]]:
        """Leaves every stream; returns the tasks that are about to end."""
        self._end()
        self.sender.is_left = True
        self.channel.abandon_sends()
        tasks = []
        for stream in self._open:
            call = self._call(stream)
            if call is not None and call.wire is stream:
                call.leave()
            stream.leave()
            if stream.task is not None:
                tasks.append(stream.task)
                if stream.answer_id is None:
                    stream.task.cancel()  # it waits for admission
        return tasks


_STOPPED: Final = "the client stopped the stream before it started"
_HANDLERS: Final = {
    "start": Multiplexer._start,
    "stop": Multiplexer._stop,
    "cancel": Multiplexer._stop,
    "update": Multiplexer._update,
    "credit": Multiplexer._credit,
    "resume": Multiplexer._resume,
    "observe": Multiplexer._observe,
}
