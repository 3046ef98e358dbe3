"""A call: an answer that is being made for a client, and the ways in which it can be ended.

Whoever ends it, the engine hears of it at once: the client leaves or stops it, its time is over,
or the server shuts down.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from torvyn.engine.answer.answer import Answer
from torvyn.engine.service.service import Service
from torvyn.errors import DeadlineExceeded, TorvynError
from torvyn.observe.logs import Redactor
from torvyn.protocol import traceparent
from torvyn.protocol.frames import Finish, FinishReason
from torvyn.transport.access.key_limits import Pace
from torvyn.transport.request_body import InferenceRequest
from torvyn.transport.settings import ServerSettings
from torvyn.transport.wire import Wire


class Call(ABC):
    """One answer on its way to one client. Thousands may wait, so it is small."""

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
        """What clients call it."""
        self.answer = answer
        self.settings = settings
        self.created_s = time.time()
        self.trace = traceparent.CURRENT.get() or traceparent.begin()
        self.failure: TorvynError | None = None
        """Why it could not go on, as far as this side knows."""
        self.is_left = False
        """Nobody reads any more."""
        self.is_ending = False
        """Somebody has ended it: it waits for nothing any more."""
        self.pace: Pace | None = None
        """How fast its key may have it."""
        self._pause: asyncio.Future[None] | None = None
        self._deadline_s = service.deadline_s
        self._stopped_by: str | None = None
        self._listener: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        wire.bind(answer.request_id)
        # Logs have the id of the request: who knows that of the stream can stop it.
        answer.log_as(wire.request_id)

    @property
    def created(self) -> int:
        """In whole seconds, as frames have it."""
        return int(self.created_s)

    @property
    def id(self) -> str:
        return self.answer.request_id

    @abstractmethod
    async def run(self) -> None:
        """Answers; returns when the answer is over, however it ended."""

    def stop(self) -> None:
        """As its client asks: what is held is let go, and it ends well."""
        self._stopped_by = "client"
        self.answer.stop()
        self._hurry()

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """As its client asks: for what has not left yet."""
        self.answer.update(stop=stop, max_tokens=max_tokens)

    def leave(self) -> None:
        """The client has gone."""
        self.is_left = True
        self.answer.close()
        self._hurry()

    def cancel(self) -> None:
        """As its client asks: at once, and what is held is dropped."""
        self.answer.close()
        self._hurry()

    def fail(self, error: TorvynError) -> None:
        """It cannot go on; the client is told why."""
        if self.failure is None:
            self.failure = error
            self.answer.close()
            self._hurry()

    def finish(self, index: int, reason: FinishReason | None, matched: str | None) -> Finish:
        """How a choice ended, seen from outside: what we broke off is an error."""
        if reason is None or (reason == "cancelled" and self.failure is not None):
            reason = "cancelled" if self.failure is None else "error"
        by = self._stopped_by if reason == "stop" and matched is None else None
        side = self.answer.filtered_side if reason == "content_filter" else None
        return Finish(index, reason, matched, by, side=side)

    def message_of(self, error: TorvynError) -> str:
        """The words for the client, without secrets."""
        return Redactor(self.settings.secrets).text(error.message)

    async def pause(self, seconds: float) -> None:
        """Waits so long; less, when it is ended meanwhile."""
        if seconds <= 0 or self.is_ending:
            return
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(seconds, self._go_on)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None

    def _go_on(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def _hurry(self) -> None:
        self.is_ending = True
        self._go_on()
        self.wire.hurry()

    def attend(self) -> None:
        """From now on the engine is told when the client leaves or time is up."""
        loop = asyncio.get_running_loop()
        self._listener = loop.create_task(self._listen())
        if self._deadline_s is not None:
            self._alarm = loop.call_later(self._deadline_s, self._time_is_up)

    def dismiss(self) -> None:
        """It is over, and nobody needs to be told any more."""
        if self._listener is not None:
            self._listener.cancel()
            # How it was cancelled leads back here: the answer, its flow and the flow's descriptors
            # would stay until cycles are looked for.
            self._listener = None
        if self._alarm is not None:
            self._alarm.cancel()

    async def _listen(self) -> None:
        await self.wire.until_left()
        self.leave()

    def _time_is_up(self) -> None:
        message = f"the answer took longer than {self._deadline_s:g} s"
        self.fail(DeadlineExceeded(message, code="transport.deadline"))
