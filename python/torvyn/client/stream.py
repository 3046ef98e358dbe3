"""`AsyncStream`: one answer of a server, read while it is generated.

The request is sent when the stream is entered or first read. Leaving its block or its loop ends the
answer: the connection is closed, and a stateful stream is cancelled unless it was detached.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Self

from torvyn._io.closing import AsyncCloseOnExit
from torvyn._io.other_loops import require_asyncio
from torvyn.client import failures
from torvyn.client.completion import CompletionBuilder
from torvyn.client.paced_text import pace_text
from torvyn.client.resumable_stream import ResumableStream
from torvyn.client.transports.transport import Transport
from torvyn.errors import TorvynError
from torvyn.protocol.completion import Completion
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    FilterSide,
    FinishReason,
    Frame,
    HeartbeatFrame,
    Kind,
    StartFrame,
    Usage,
)

logger = logging.getLogger("torvyn.client")

_CANCEL_TIMEOUT_S: Final = 2.0


class StreamProperties:
    """What is known of an answer, for `AsyncStream` and `Stream`."""

    def __init__(self, frames: ResumableStream, choices: int, secret: str | None) -> None:
        self._resumable = frames
        self._choices = choices
        self._secret = secret
        self.seq = frames.seq
        """The number of the last frame that the program has read."""

    @property
    def id(self) -> str | None:
        """The stream's id at the server; None before it has started."""
        return self._resumable.id

    @property
    def flow(self) -> str | None:
        """The flow that answers."""
        start = self._resumable.start
        return None if start is None else start.flow

    @property
    def last_id(self) -> str | int | None:
        """The last frame that was read, to continue with `client.resume(id, after=last_id)`."""
        return self._resumable.event_id(self.seq)

    @property
    def end(self) -> EndFrame | None:
        """The last frame, once it has arrived."""
        return self._resumable.end

    @property
    def error(self) -> TorvynError | None:
        """The error that the server reported in the middle of the answer."""
        error = self._resumable.error
        return None if error is None else failures.error_from_frame(error, self._secret)

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        """How each choice ended; None while that is not known."""
        if (end := self._resumable.end) is None:
            return (None,) * self._choices
        return tuple(one.reason for one in sorted(end.finish, key=lambda one: one.index))

    @property
    def filtered_side(self) -> FilterSide | None:
        """The side on which a guard ended a choice with `content_filter`: the `prompt` or the
        `completion`. None if no choice ended that way, or if the server does not report it."""
        end = self._resumable.end
        sides = () if end is None else (one.side for one in end.finish)
        return next((side for side in sides if side is not None), None)

    @property
    def usage(self) -> Usage:
        """The token counts; known at the end."""
        end = self._resumable.end
        return (end.usage if end is not None else None) or Usage()

    @property
    def timing(self) -> dict[str, float]:
        """Times and rates as this client measures them, from the request on: `ttft_s` (until the
        first text), `inter_token_s`, `gap_p50_s` and `gap_p99_s` between chunks, `tokens_per_s`,
        `duration_s`; and the numbers of `resumes` and `heartbeats`."""
        stream = self._resumable
        figures = stream.timing.figures(self.usage)
        return {**figures, "resumes": stream.resumes, "heartbeats": stream.heartbeats}


class AsyncStream(StreamProperties, AsyncCloseOnExit):
    """One answer, from `client.stream`. Read it once: frames with `async for`, or `text()`, or
    `complete()`."""

    def __init__(
        self,
        stream: ResumableStream,
        transport: Transport,
        *,
        choices: int = 1,
        is_stateful: bool = False,
        jitter: float | None = None,
        secret: str | None = None,
    ) -> None:
        """`is_stateful`: the stream outlives its connection, so closing it must cancel it."""
        super().__init__(stream, choices, secret)
        self._transport = transport
        self._is_stateful = is_stateful
        self.jitter = jitter
        self._first_frames: list[Frame] = []
        self._was_read = False
        self._is_closed = False

    # Reading

    async def begin(self) -> None:
        """Sends the request and waits until the server has accepted it; raises its rejection."""
        require_asyncio("an async client")
        if self._resumable.start is None and not self._first_frames:
            try:
                self._first_frames = list(await self._resumable.read() or ())
            except BaseException:
                await self.aclose()
                raise

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    def __aiter__(self) -> AsyncGenerator[Frame, None]:
        if self._was_read:
            raise failures.already_read()
        self._was_read = True
        return self._frames()

    async def _frames(self) -> AsyncGenerator[Frame, None]:
        try:
            await self.begin()
            batch: Sequence[Frame] | None = self._first_frames
            while batch is not None:
                for frame in batch:
                    if not isinstance(frame, (StartFrame, HeartbeatFrame)):
                        self.seq = frame.seq
                    yield frame
                batch = await self._resumable.read()
        finally:
            await self.aclose()

    def text(self, index: int = 0, kind: Kind = "text") -> AsyncGenerator[str, None]:
        """The text of one choice as it arrives; raises if the answer does not reach its end."""
        texts = self._texts(aiter(self), index, kind)
        return texts if self.jitter is None else pace_text(texts, self.jitter)

    async def _texts(
        self, frames: AsyncGenerator[Frame, None], index: int, kind: Kind
    ) -> AsyncGenerator[str, None]:
        async with contextlib.aclosing(frames):
            async for frame in frames:
                if isinstance(frame, DeltaFrame) and frame.index == index and frame.kind == kind:
                    yield frame.text
                elif isinstance(frame, ErrorFrame):
                    await self._read_to_end(frames)
        self.raise_error()

    async def complete(self) -> Completion:
        """The whole answer; raises if it does not reach its end."""
        builder = CompletionBuilder()
        async with contextlib.aclosing(aiter(self)) as frames:
            async for frame in frames:
                if isinstance(frame, DeltaFrame):
                    builder.add(frame)
                elif isinstance(frame, ErrorFrame):
                    await self._read_to_end(frames)
        self.raise_error()
        if self.end is None:
            raise failures.connection_lost("the stream was closed", "the server")
        return builder.completion(self.id or "", self.end, self.timing)

    async def _read_to_end(self, frames: AsyncGenerator[Frame, None]) -> None:
        """Reads up to the end frame, which follows an error and holds the usage, if it arrives."""
        with contextlib.suppress(TorvynError):
            async for _ in frames:
                pass

    def raise_error(self) -> None:
        """Raises the error that the server reported in the middle of the answer, if any."""
        if (error := self.error) is not None:
            raise error

    # Control

    async def stop(self) -> bool:
        """Ends the answer gracefully: the server sends the text that it has withheld, then the end
        frame with `stop`. False if the answer had already ended."""
        return await self._transport.end(self._require_id(), cancel=False)

    async def cancel(self) -> bool:
        """Ends the answer at once with `cancelled`; the server drops the text that it has withheld.
        False if the answer had already ended."""
        return await self._transport.end(self._require_id(), cancel=True)

    async def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """Changes the stop strings or the token limit for the rest of the answer."""
        options = {"stop": [stop] if isinstance(stop, str) else stop, "max_tokens": max_tokens}
        changes: Mapping[str, Any] = {k: v for k, v in options.items() if v is not None}
        await self._transport.update(self._require_id(), changes)

    async def detach(self) -> str:
        """Disconnects from a stateful stream, which continues at the server, and returns its id."""
        if not self._is_stateful:
            hint = "open it with `stateful=True`"
            raise failures.unsupported("`detach`", "for a stream that is not stateful", hint)
        id = self._require_id()
        self._is_stateful = False
        await self.aclose()
        return id

    async def aclose(self) -> None:
        """Closes the connection at once, and cancels a stateful stream at the server."""
        if self._is_closed:
            return
        self._is_closed = True
        self._resumable.close()
        if self._is_stateful:
            try:
                async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                    if (id := await self._resumable.abandoned_id()) is not None:
                        await self._transport.end(id, cancel=True)
            except (TorvynError, TimeoutError) as error:
                logger.debug("stream %s could not be cancelled: %s", self.id, error)

    def _require_id(self) -> str:
        if self._resumable.id is None:
            raise failures.not_begun()
        return self._resumable.id
