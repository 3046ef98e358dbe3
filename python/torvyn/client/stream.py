"""A stream: one answer of a server on its way, for coroutines.

It begins when it is entered or first read. Leaving its block, or its loop, ends the answer: the
connection is closed and a stateful one is cancelled as well, unless it was detached.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Self

from torvyn.client import failures
from torvyn.client.completion import Joined
from torvyn.client.paced_text import paced
from torvyn.client.resumable_stream import Course
from torvyn.client.transports.transport import Wire
from torvyn.concurrency.context_managers import AsyncClosing
from torvyn.concurrency.require_asyncio import require_asyncio
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

_FAREWELL_S: Final = 2.0
"""How long closing may take to tell the server."""


class AsyncStream(AsyncClosing):
    """Made by a client. Read once: frames by `async for`, or `text()`, or `complete()`."""

    def __init__(
        self,
        course: Course,
        wire: Wire,
        *,
        choices: int = 1,
        is_kept: bool = False,
        jitter: float | None = None,
        secret: str | None = None,
    ) -> None:
        """`is_kept`: it outlives its connection, so that closing has to cancel it."""
        self._course = course
        self._wire = wire
        self._choices = choices
        self._is_kept = is_kept
        self.jitter = jitter
        self._secret = secret
        self._ahead: list[Frame] = []
        self.seq = course.seq
        """The number of the last frame that was read here."""
        self._is_taken = False
        self._is_closed = False

    # What is known of it

    @property
    def id(self) -> str | None:
        """What the server calls it; None before it has begun."""
        return self._course.id

    @property
    def flow(self) -> str | None:
        """The flow that answers."""
        start = self._course.start
        return None if start is None else start.flow

    @property
    def last_id(self) -> str | int | None:
        """The last frame that was read here, to go on from: `client.resume(id, after=last_id)`."""
        return self.place(self.seq)

    def place(self, seq: int) -> str | int | None:
        """What to go on from after the frame with that number."""
        return self._course.place(seq)

    @property
    def end(self) -> EndFrame | None:
        """The last frame, once it has arrived."""
        return self._course.end

    @property
    def error(self) -> TorvynError | None:
        """What the server said went wrong in the middle of the answer."""
        error = self._course.error
        return None if error is None else failures.told(error, self._secret)

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        """How each choice ended; None while that is not known."""
        if (end := self._course.end) is None:
            return (None,) * self._choices
        return tuple(one.reason for one in sorted(end.finish, key=lambda one: one.index))

    @property
    def filtered_side(self) -> FilterSide | None:
        """Where a guard ended a choice as `content_filter`: in the `prompt`, or in the
        `completion`. None: no choice ended so, or that is not known."""
        end = self._course.end
        sides = () if end is None else (one.side for one in end.finish)
        return next((side for side in sides if side is not None), None)

    @property
    def usage(self) -> Usage:
        """The tokens; known at the end."""
        end = self._course.end
        return (end.usage if end is not None else None) or Usage()

    @property
    def timing(self) -> dict[str, float]:
        """Seconds and rates as measured here, from the request on: `ttft_s` (the first text),
        `inter_token_s`, `gap_p50_s` and `gap_p99_s` between chunks, `tokens_per_s`, `duration_s`;
        and how many `resumes` and `heartbeats` there were."""
        course = self._course
        figures = course.timing.figures(self.usage)
        return {**figures, "resumes": course.resumes, "heartbeats": course.heartbeats}

    # Reading

    async def begin(self) -> None:
        """Asks, and waits until the server has taken it; raises what it refuses."""
        require_asyncio("an async client")
        if self._course.start is None and not self._ahead:
            try:
                self._ahead = list(await self._course.read() or ())
            except BaseException:
                await self.aclose()
                raise

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    def __aiter__(self) -> AsyncGenerator[Frame, None]:
        if self._is_taken:
            raise failures.already_read()
        self._is_taken = True
        return self._frames()

    async def _frames(self) -> AsyncGenerator[Frame, None]:
        try:
            await self.begin()
            batch: Sequence[Frame] | None = self._ahead
            while batch is not None:
                for frame in batch:
                    if not isinstance(frame, (StartFrame, HeartbeatFrame)):
                        self.seq = frame.seq
                    yield frame
                batch = await self._course.read()
        finally:
            await self.aclose()

    def text(self, index: int = 0, kind: Kind = "text") -> AsyncGenerator[str, None]:
        """The text of one choice as it comes; raises when the answer breaks off."""
        texts = self._texts(aiter(self), index, kind)
        return texts if self.jitter is None else paced(texts, self.jitter)

    async def _texts(
        self, frames: AsyncGenerator[Frame, None], index: int, kind: Kind
    ) -> AsyncGenerator[str, None]:
        async with contextlib.aclosing(frames):
            async for frame in frames:
                if isinstance(frame, DeltaFrame) and frame.index == index and frame.kind == kind:
                    yield frame.text
                elif isinstance(frame, ErrorFrame):
                    await self._read_out(frames)
        self.raise_error()

    async def complete(self) -> Completion:
        """The whole answer; raises when it breaks off."""
        joined = Joined()
        async with contextlib.aclosing(aiter(self)) as frames:
            async for frame in frames:
                if isinstance(frame, DeltaFrame):
                    joined.add(frame)
                elif isinstance(frame, ErrorFrame):
                    await self._read_out(frames)
        self.raise_error()
        if self.end is None:
            raise failures.cut("it was closed", "the stream")
        return joined.completion(self.id or "", self.end, self.timing)

    async def _read_out(self, frames: AsyncGenerator[Frame, None]) -> None:
        """An error is followed by the end, which has the usage; if it gets here."""
        with contextlib.suppress(TorvynError):
            async for _ in frames:
                pass

    def raise_error(self) -> None:
        """What went wrong in the middle of the answer, if something did."""
        if (error := self.error) is not None:
            raise error

    # Steering

    async def stop(self) -> bool:
        """Ends it in good order: what the server held back comes, then the end, `stop`. False when
        it had ended."""
        return await self._wire.end(self._known_id(), cancel=False)

    async def cancel(self) -> bool:
        """Ends it at once: what was held back is dropped, and it ends with `cancelled`. False when
        it had ended."""
        return await self._wire.end(self._known_id(), cancel=True)

    async def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """Other stop strings, or another limit, for what is not yet released."""
        given = {"stop": [stop] if isinstance(stop, str) else stop, "max_tokens": max_tokens}
        changes: Mapping[str, Any] = {k: v for k, v in given.items() if v is not None}
        await self._wire.update(self._known_id(), changes)

    async def detach(self) -> str:
        """Leaves a stateful stream, which goes on at the server, and gives its id."""
        if not self._is_kept:
            hint = "ask for it with `stateful=True`"
            raise failures.unsupported("`detach`", "for a stream that is not stateful", hint)
        id = self._known_id()
        self._is_kept = False
        await self.aclose()
        return id

    async def aclose(self) -> None:
        """Ends it, wherever it is: the connection at once; a stateful one is cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        self._course.close()
        if self._is_kept:
            try:
                async with asyncio.timeout(_FAREWELL_S):
                    if (id := await self._course.abandoned()) is not None:
                        await self._wire.end(id, cancel=True)
            except (TorvynError, TimeoutError) as error:
                logger.debug("stream %s could not be cancelled: %s", self.id, error)

    def _known_id(self) -> str:
        if self._course.id is None:
            raise failures.not_begun()
        return self._course.id
