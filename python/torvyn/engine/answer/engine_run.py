"""One request on an engine, driven by whoever awaits it.

No task and no queue of its own: the consumer's `await` is the engine's, so a slow consumer slows
the engine and a cancelled one cancels it. An abort from elsewhere interrupts that `await`, the way
`asyncio.timeout` does, and is never seen as a cancellation of the consumer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torvyn.concurrency.process_exit import await_if_abandoned
from torvyn.concurrency.require_asyncio import require_asyncio
from torvyn.engine.answer.push import BREATH, ENOUGH, Reader, Sending, drive
from torvyn.engine.answer.response import Response
from torvyn.engine.delta import Delta
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.engine.timing import Clock, Timing
from torvyn.engine.upstream_text import printable
from torvyn.errors import Internal, TorvynError
from torvyn.protocol.frames import FinishReason, Usage

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import Lanes
    from torvyn.engine.engine import Engine
    from torvyn.engine.prompt.prompt_flow import PromptFlow

logger = logging.getLogger("torvyn.engine")
# A program that has set up no log is told by the exception, and by nothing else.
logger.addHandler(logging.NullHandler())


class Run:
    """`deltas()` once. Only `interrupt` may be called from other threads than the loop's."""

    __slots__ = (
        "__weakref__",
        "_cancelling",
        "_cancelling_first",
        "_closing",
        "_ends_as",
        "_engine",
        "_has_cancelled",
        "_loop",
        "_steps",
        "_task",
        "is_interrupted",
        "is_over",
        "lanes",
        "prompt",
        "request",
        "response",
        "timing",
    )

    def __init__(
        self,
        engine: Engine,
        request: Request,
        clock: Clock = time.perf_counter,
        lanes: Lanes | None = None,
        prompt: PromptFlow | None = None,
    ) -> None:
        """`lanes` are what every delta goes through, when all their stages are inline; `prompt`
        is what the request goes through before the engine is asked."""
        self.request = request
        self.prompt = prompt
        self.lanes = lanes
        self.timing = Timing(clock)
        self.response = Response(request, engine.vocabulary, is_limited=engine.limits_tokens)
        self.is_interrupted = False
        self._ends_as: FinishReason = "cancelled"
        self.is_over = False
        self._engine = engine
        self._steps: AsyncIterator[Step] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        """Who waits for the engine now; None while the consumer has the word."""
        self._has_cancelled = False
        self._cancelling = self._cancelling_first = 0
        self._closing: asyncio.Task[None] | None = None

    @property
    def usage(self) -> Usage:
        return self.response.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return self.response.finish_reasons if self.lanes is None else tuple(self.lanes.reasons)

    @property
    def is_prompt_blocked(self) -> bool:
        """A guard has refused the request, and the engine was not asked."""
        return self.prompt is not None and self.prompt.is_blocked

    async def deltas(self, delivered: Callable[[], None]) -> AsyncGenerator[Delta, None]:
        """Everything, to the usage at the end. What the engine raises comes after the deltas that
        close its choices. `delivered` is called before each delta with something to show."""
        steps, response, taken, lanes = await self._begin(), self.response, 0, self.lanes
        current_task, loop = asyncio.current_task, self._loop
        async with _Outcome(self) as outcome:
            self._task = current_task(loop)
            async for step in steps:
                made = self._made(step)
                is_cut = response.is_cut or (lanes is not None and lanes.is_cut)
                if is_cut:
                    await self._close_steps()
                for delta in _deltas(made):
                    if delta.text or delta.call is not None:
                        delivered()
                    self._task = None
                    yield delta
                    self._task = current_task(loop)
                if self.is_interrupted or is_cut:
                    break
                taken += 1
                if not taken % BREATH:
                    await asyncio.sleep(0)
        for delta in outcome.deltas:
            if delta.text:
                delivered()
            yield delta
        if outcome.failure is not None:
            raise outcome.failure

    async def push(self, reader: Reader) -> None:
        """Gives everything that `deltas` would to a reader, which sends it. The last that was
        gathered is left to the reader to send."""
        steps = await self._begin()
        async with _Outcome(self) as outcome:
            self._task = asyncio.current_task(self._loop)
            await drive(steps, self._giving(reader), reader.flush)
            if self.response.is_cut or (self.lanes is not None and self.lanes.is_cut):
                await self._close_steps()
        for delta in outcome.deltas:
            if delta.text:
                self.timing.delivered()
            reader.take(delta)
        if outcome.failure is not None:
            raise outcome.failure

    def _giving(self, reader: Reader) -> Callable[[Step], Sending | bool | None]:
        response, lanes, made_of = self.response, self.lanes, self._made
        say, take, delivered = reader.say, reader.take, self.timing.delivered

        def give(step: Step) -> Sending | bool | None:
            made = made_of(step)
            is_due = False
            if isinstance(made, str):
                if made:
                    delivered()
                    is_due = say(made)
            else:
                for delta in made:
                    if delta.text or delta.call is not None:
                        delivered()
                    is_due = take(delta) or is_due
            if self.is_interrupted or response.is_cut or (lanes is not None and lanes.is_cut):
                return ENOUGH
            return self._pausing(reader) if is_due else None

        return give

    def _pausing(self, reader: Reader) -> Sending:
        """The reader sends; meanwhile nobody waits for the engine."""
        task, self._task = self._task, None
        if (sending := reader.flush()) is not None:
            yield from sending
        self._task = task
        return self.is_interrupted

    def _made(self, step: Step) -> str | Sequence[Delta]:
        """What leaves by that step; a text when it is text of the only choice, and nothing else."""
        text, lanes = self.response.plain(step), self.lanes
        if text is None:
            deltas = self.response.take(step)
            return deltas if lanes is None else lanes.take(deltas)
        return lanes.say(text) if lanes is not None and text else text

    def interrupt(self, reason: FinishReason = "cancelled") -> None:
        """Ends it. From any thread, at any time, as often as one likes; the first reason holds.

        As `cancelled`, what is held is dropped; as `stop`, it is let go.
        """
        if not self.is_interrupted:
            self._ends_as = reason
        self.is_interrupted = True
        loop = self._loop
        if loop is not None and not self.is_over:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and all it ran with it
                loop.call_soon_threadsafe(self._interrupt_here)

    def update(self, stop: str | Sequence[str] | None, max_tokens: int | None) -> Request:
        """Other stop strings or another limit for what has not left yet: the request as it is
        from now on. In the loop's thread."""
        self.request = request = Request.make(self.request, stop=stop, max_tokens=max_tokens)
        if self.is_over:
            return request
        is_due = self.response.update(
            request, is_stop=stop is not None, is_limit=max_tokens is not None
        )
        if is_due and self._loop is not None:
            # The engine may be silent for long; nothing that it says would be taken.
            self.interrupt("length")
        return request

    async def _begin(self) -> AsyncIterator[Step]:
        self._loop = require_asyncio("`async for` over an answer")
        if (task := asyncio.current_task(self._loop)) is not None:
            self._cancelling_first = task.cancelling()
        try:
            self._engine._enter(self)
        except TorvynError:
            await await_if_abandoned()
            raise
        self.timing.started()
        is_empty = self.request.max_tokens == 0 or self.is_interrupted
        if is_empty:
            self._steps = _nothing()
        elif self.prompt is not None:
            self._steps = self.prompt.steps(self._engine, self.request)
        else:
            self._steps = aiter(self._engine.steps(self.request))
        return self._steps

    def _interrupt_here(self) -> None:
        if self.is_over:
            return
        if self._task is None:
            # The engine hears of it now, the consumer when it comes back.
            assert self._loop is not None
            self._closing = self._loop.create_task(self._close_steps(), name="torvyn-abort")
        elif self._task is not asyncio.current_task() and not self._has_cancelled:
            # Once: each cancellation of a task has to be taken back.
            self._has_cancelled = True
            self._cancelling = self._task.cancelling()
            self._task.cancel()

    def _was_interrupted(self) -> bool:
        """Whether a cancellation was ours, and nobody else's besides."""
        task = self._task
        return self._has_cancelled and task is not None and task.uncancel() <= self._cancelling

    def _is_left(self) -> bool:
        """Whether whoever waits for the engine was cancelled; else the engine cancelled itself."""
        task = self._task
        return task is None or task.cancelling() > self._cancelling_first

    async def _close_steps(self) -> None:
        steps = self._steps
        if (close := getattr(steps, "aclose", None)) is not None:
            # What an engine cannot clean up is no failure of the request.
            with contextlib.suppress(Exception):
                await close()

    def _end(self, reason: FinishReason) -> list[Delta]:
        if self.request.max_tokens == 0 and reason == "stop":
            reason = "length"
        self.is_over = True
        self.timing.ended()
        self._engine._leave(self)
        return self.response.end(reason, is_early=self.is_interrupted)

    def _shaped(self, deltas: list[Delta], reason: FinishReason) -> list[Delta]:
        """The last deltas, through the lanes, which end with them."""
        lanes = self.lanes
        if lanes is None:
            return deltas
        try:
            out = lanes.take(deltas)
        finally:
            lanes.close()
        return [*out, *lanes.end(reason), deltas[-1]]


class _Outcome:
    """What a run ends with, however it ends. Whoever leaves its loop comes past here too, so that
    nothing is left behind."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.deltas: list[Delta] = []
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        run = self._run
        reason: FinishReason = "stop"
        is_ours = False
        if isinstance(error, asyncio.CancelledError):
            is_left = run._is_left()
            is_ours = run._was_interrupted() or (run.is_interrupted and not is_left)
            if not is_ours and not is_left:
                error = _cancelled_itself(error)
        run._task = None
        if isinstance(error, Exception):
            self.failure, reason = _told(error, run.request.log_id), "error"
        elif run.is_interrupted and (error is None or is_ours):
            reason = run._ends_as
        elif error is not None or (run.lanes and run.lanes.is_cut):
            reason = "cancelled"
        self._end(reason)
        await run._close_steps()
        return error is None or self.failure is not None or is_ours

    def _end(self, reason: FinishReason) -> None:
        run = self._run
        deltas = run._end(reason)
        try:
            self.deltas = run._shaped(deltas, reason)
        except Exception as error:
            # A flow that fails with the last it is given.
            self.failure = self.failure or _told(error, run.request.log_id)
            self.deltas = [*run._shaped([], "error"), deltas[-1]]


async def _nothing() -> AsyncGenerator[Step, None]:
    """No token was asked for."""
    return
    yield


def _cancelled_itself(error: asyncio.CancelledError) -> Internal:
    failed = Internal("the engine cancelled its own work", code="engine.failed")
    failed.__cause__ = error
    return failed


def _deltas(made: str | Sequence[Delta]) -> Sequence[Delta]:
    if isinstance(made, str):
        return (Delta(0, made),) if made else ()
    return made


def _told(error: Exception, request_id: str) -> Exception:
    """An engine raises typed errors; anything else is its own fault. Clients read the message, so
    the words of a library stay in the log and on the exception."""
    if isinstance(error, TorvynError):
        return error
    failed = Internal("the engine failed; the log says how", code="engine.failed")
    failed.add_note(f"{type(error).__name__}: {printable(str(error))}")
    failed.__cause__ = error
    logger.error(
        "request %s: the engine failed",
        request_id,
        exc_info=error,
        extra={"event": "engine.failure", "request_id": request_id},
    )
    return failed
