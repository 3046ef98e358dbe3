"""One stream's frames, read over as many connections as it needs.

Frames are returned once and in order, by sequence number: a frame that is repeated after a resume
is skipped, and a missing frame is requested again or is an error. Only a stateful stream is
resumed; a request that has not been answered is sent again only if the server asks for that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from torvyn.client import failures
from torvyn.client.failures import RequestTimeoutError, ServerBusyError, ServerError
from torvyn.client.retry_policy import RetryPolicy
from torvyn.client.transports.transport import (
    ConnectionLost,
    FrameReader,
    StreamRequest,
    Transport,
    is_unreachable,
)
from torvyn.errors import TorvynError
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    HeartbeatFrame,
    StartFrame,
)
from torvyn.protocol.timing import Timing

TAKEN_OVER = "session.taken-over"


class ResumableStream:
    """Call `read` until it returns None. `close` ends it at any time."""

    def __init__(
        self,
        transport: Transport,
        request: StreamRequest,
        policy: RetryPolicy,
        server: str,
        *,
        is_resumable: bool,
    ) -> None:
        self._transport = transport
        self._request = request
        self._server = server
        self._on_reconnect = policy.on_reconnect
        self._is_resumable = is_resumable
        self._retry = policy.of_requests()
        self._resume = policy.of_streams()
        self._reader: FrameReader | None = None
        self._closed = asyncio.Event()
        self._gap: ConnectionLost | None = None
        self._failure: TorvynError | None = None
        self._was_sent = False
        self._opening: asyncio.Task[Sequence[Frame]] | None = None
        self.id = request.id
        self.start: StartFrame | None = None
        self.epoch, self.seq = _parse_event_id(request.after)
        self.end: EndFrame | None = None
        self.error: ErrorFrame | None = None
        self.is_over = False
        self.timing = Timing()
        self.resumes = 0
        self.heartbeats = 0

    def event_id(self, seq: int) -> str | int | None:
        """The value of `after` that continues behind that frame: an event id, or the number alone
        while the epoch is unknown."""
        return seq or None if self.epoch is None else f"{self.epoch}-{seq}"

    async def read(self) -> Sequence[Frame] | None:
        """The frames that arrived together, at least one; None at the end."""
        if self._failure is not None:
            raise self._failure
        while not self.is_over and not self._closed.is_set():
            try:
                if frames := await (self._first() if self.start is None else self._next()):
                    return frames
            except (ConnectionLost, TorvynError) as error:
                self._disconnect()
                if self._closed.is_set():
                    break
                await self._recover(error)
        if self._opening is None:
            self._disconnect()
        return None

    def close(self) -> None:
        """Closes the connection at once; a waiting `read` returns None. Call `abandoned_id` for a
        stream that continues at the server."""
        self._closed.set()
        if self._opening is None:
            self._disconnect()
        elif not self._is_resumable or self._reader is None:
            # A server that has sent nothing ends a stream whose client leaves.
            self._opening.cancel()

    async def abandoned_id(self) -> str | None:
        """After `close`: the id of a stream that continues at the server. If the request was sent
        a moment ago, waits for the server to name it."""
        if self._opening is not None:
            try:
                with contextlib.suppress(ConnectionLost, TorvynError):
                    if not self._opening.cancelling():
                        await self._opening
            finally:
                self._disconnect()
        return self.id if self.start is not None and not self.is_over else None

    # Reading

    async def _first(self) -> Sequence[Frame]:
        """The first frames. Neither `close` nor a cancelled reader ends the task: the server may
        have started the stream, and its id is on the way."""
        if self._opening is None:
            self.timing = self.timing if self._was_sent else Timing()
            self._was_sent = True
            self._opening = asyncio.ensure_future(self._open())
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({self._opening, closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closed.cancel()
        if not self._opening.done():
            return []
        task, self._opening = self._opening, None
        return [] if task.cancelled() else task.result()

    async def _open(self) -> Sequence[Frame]:
        self._reader = await self._transport.open(self._request)
        frames: Sequence[Frame] = []
        while self._reader is not None and not frames:
            frames = self._accept(await self._reader.read())
        if self._reader is None:
            self._finish()
        elif self.start is None:
            raise failures.invalid_response("a frame before the start frame", self._server)
        return frames

    async def _next(self) -> Sequence[Frame]:
        if self._gap is not None:
            raise self._gap
        if self._reader is None:
            resume = StreamRequest("resume", id=self.id, after=self.event_id(self.seq))
            self._reader = await self._transport.open(resume)
            self.resumes += 1
        if self._reader is None:
            self._finish()
            return []
        if self._closed.is_set():
            return []
        return self._accept(await self._reader.read())

    def _accept(self, frames: Sequence[Frame]) -> list[Frame]:
        """The new frames, in order; those behind a gap are read again over another connection."""
        fresh: list[Frame] = []
        for frame in frames:
            if isinstance(frame, HeartbeatFrame):
                self.heartbeats += 1
                self._resume.reset()
            elif isinstance(frame, StartFrame):
                fresh += self._accept_start(frame)
            elif self._is_next(frame.seq) or _is_takeover(frame):
                self._record(frame)
                fresh.append(frame)
            if self._gap is not None or self.is_over:
                break
        if self._reader is not None and self._reader.epoch is not None:
            self.epoch = self._reader.epoch
        if any(isinstance(frame, DeltaFrame) for frame in fresh):
            self.timing.delivered()
        return fresh

    def _accept_start(self, start: StartFrame) -> list[Frame]:
        is_first = self.start is None
        # An observer does not get the id by which a stream can be stopped.
        if self.id is not None and start.id != self.id and self._request.kind != "observe":
            raise failures.invalid_response("the start frame of another stream", self._server)
        self.start, self.id = start, self.id or start.id
        return [start] if is_first else []

    def _is_next(self, seq: int) -> bool:
        if self._request.kind == "observe":
            return True
        if seq > self.seq + 1:
            self._gap = ConnectionLost(f"frame {self.seq + 1} is missing, {seq} arrived")
        return seq == self.seq + 1

    def _record(self, frame: Frame) -> None:
        self._resume.reset()
        if isinstance(frame, ErrorFrame):
            self.error = frame
        if _is_takeover(frame):
            self._finish()
        elif not isinstance(frame, (StartFrame, HeartbeatFrame)):
            self.seq = frame.seq
        if isinstance(frame, EndFrame):
            self.end = frame
            self._finish()

    def _finish(self) -> None:
        self.is_over = True
        self.timing.ended()

    def _disconnect(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Retrying

    async def _recover(self, error: ConnectionLost | TorvynError) -> None:
        """Waits before the next try; raises the error if there is none."""
        self._gap = None
        failure = self._public_error(error)
        has_started = self.start is not None
        retry_after_s = failure.retry_after_s if isinstance(failure, ServerError) else None
        delay_s = None
        if has_started and self._is_resumable and _is_transient(error):
            delay_s = self._resume.next_delay_s(retry_after_s)
        elif not has_started and _may_be_sent_again(failure):
            delay_s = self._retry.next_delay_s(retry_after_s)
        if delay_s is None:
            self._failure = failure
            self._finish()
            raise failure
        if has_started and self._on_reconnect is not None:
            self._on_reconnect(self._resume.tries, failure)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), delay_s)

    def _public_error(self, error: ConnectionLost | TorvynError) -> TorvynError:
        if isinstance(error, TorvynError):
            return error
        hint = None
        if not self._is_resumable:
            hint = "a stream with `stateful=True` is resumed"
        elif self.start is not None:
            hint = "continue later with `client.resume(stream.id, after=stream.last_id)`"
        failure = failures.connection_lost(str(error), self._server, hint)
        failure.__cause__ = error
        return failure


def _is_transient(error: ConnectionLost | TorvynError) -> bool:
    """Whether another connection may succeed."""
    transient = (ConnectionLost, ServerBusyError, RequestTimeoutError)
    return isinstance(error, transient) or is_unreachable(error)


def _may_be_sent_again(error: TorvynError) -> bool:
    """Whether the answer has not begun, for sure. A proxy's 502 may hide one that has."""
    return isinstance(error, ServerBusyError) and (error.is_retryable or error.status != 502)


def _is_takeover(frame: Frame) -> bool:
    """Another reader has taken over the stream. This frame is the last, and has no number."""
    return isinstance(frame, ErrorFrame) and frame.code == TAKEN_OVER


def _parse_event_id(after: str | int | None) -> tuple[str | None, int]:
    """The epoch, if it is known, and the number of the last frame that was read."""
    if isinstance(after, int):
        return None, after
    epoch, _, seq = (after or "").rpartition("-")
    return epoch or None, int(seq) if seq.isdecimal() else 0
