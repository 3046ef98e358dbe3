"""A call: one request that is being answered, and the ways to end it.

The client leaves or stops it, its deadline passes, or the server shuts down; in each case the
engine stops at once.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from torvyn._observe.logs import Redactor
from torvyn.engine.answer.answer import Answer
from torvyn.engine.service.service import Service
from torvyn.errors import DeadlineExceeded, TorvynError
from torvyn.protocol import traceparent
from torvyn.protocol.frames import Finish, FinishReason
from torvyn.transport.access.key_limits import Pace
from torvyn.transport.request_body import InferenceRequest
from torvyn.transport.settings import ServerSettings
from torvyn.transport.wire import Wire


class Call(ABC):
    """One answer for one client. Thousands may be waiting, so it is small."""

    __slots__ = (
        "_alarm",
        "_deadline_s",
        "_listener",
        "_pause",
        "_stopped_by",
        "answer",
        "created_s",
        "failure",
        "flow",
        "is_ending",
        "is_left",
        "pace",
        "request",
        "settings",
        "trace",
        "wire",
    )

    def __init__(
        self,
        wire: Wire,
        request: InferenceRequest,
        flow: str,
        service: Service,
        answer: Answer,
        settings: ServerSettings,
    ) -> None:
        self.wire = wire
        self.request = request
        self.flow = flow
        """The name that clients use."""
        self.answer = answer
        self.settings = settings
        self.created_s = time.time()
        self.trace = traceparent.CURRENT.get() or traceparent.begin()
        self.failure: TorvynError | None = None
        """Why the server ended it, if it did."""
        self.is_left = False
        """The client has left."""
        self.is_ending = False
        """It was ended: it waits for nothing any more."""
        self.pace: Pace | None = None
        """The limit of its API key in tokens per second."""
        self._pause: asyncio.Future[None] | None = None
        self._deadline_s = service.deadline_s
        self._stopped_by: str | None = None
        self._listener: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        wire.bind(answer.request_id)

    @property
    def created(self) -> int:
        """In whole seconds, for frames."""
        return int(self.created_s)

    @property
    def id(self) -> str:
        """The one id of the answer: in headers, frames, logs, spans and `/flows`."""
        return self.answer.request_id

    @abstractmethod
    async def run(self) -> None:
        """Answers the request; returns when the answer is over, however it ended."""

    def stop(self) -> None:
        """For the client: releases text that is held back, and ends with `stop`."""
        self._stopped_by = "client"
        self.wire.stopping("stop")
        self.answer.stop()
        self._hurry()

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """For the client: changes the limits for text that is not released yet."""
        self.answer.update(stop=stop, max_tokens=max_tokens)

    def leave(self) -> None:
        """The client has left."""
        self.is_left = True
        self.answer.close()
        self._hurry()

    def cancel(self) -> None:
        """For the client: ends at once and drops text that is held back."""
        self.wire.stopping("cancel")
        self.answer.close()
        self._hurry()

    def fail(self, error: TorvynError) -> None:
        """Ends with an error frame."""
        if self.failure is None:
            self.failure = error
            self.answer.close()
            self._hurry()

    def finish(self, index: int, reason: FinishReason | None, matched: str | None) -> Finish:
        """How a choice ended for the client: a choice that the server ended early is an error."""
        if reason is None or (reason == "cancelled" and self.failure is not None):
            reason = "cancelled" if self.failure is None else "error"
        by = self._stopped_by if reason == "stop" and matched is None else None
        side = self.answer.filtered_side if reason == "content_filter" else None
        return Finish(index, reason, matched, by, side=side)

    def message_of(self, error: TorvynError) -> str:
        """The message for the client, without secrets."""
        return Redactor(self.settings.secrets).text(error.message)

    async def pause(self, seconds: float) -> None:
        """Waits, or returns early when the call is ended."""
        if seconds <= 0 or self.is_ending:
            return
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(seconds, self._end_pause)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def _hurry(self) -> None:
        self.is_ending = True
        self._end_pause()
        self.wire.hurry()

    def watch(self) -> None:
        """From now on, the call ends when the client leaves or the deadline passes."""
        loop = asyncio.get_running_loop()
        if not self.wire.when_left(self.leave):
            self._listener = loop.create_task(self._listen())
        if self._deadline_s is not None:
            self._alarm = loop.call_later(self._deadline_s, self._on_deadline)

    def unwatch(self) -> None:
        """The call is over."""
        self.wire.when_left(None)
        if self._listener is not None:
            self._listener.cancel()
            # The cancelled task refers back to the call. Without this, the answer, its flow and
            # the flow's file descriptors would live until a garbage collection.
            self._listener = None
        if self._alarm is not None:
            self._alarm.cancel()

    async def _listen(self) -> None:
        await self.wire.until_left()
        self.leave()

    def _on_deadline(self) -> None:
        message = f"the answer took longer than {self._deadline_s:g} s"
        self.fail(DeadlineExceeded(message, code="transport.deadline"))
