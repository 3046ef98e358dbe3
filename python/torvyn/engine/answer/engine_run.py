"""One request on an engine, driven by the task that awaits its pieces.

It has no task and no queue of its own: a slow reader slows the engine, and a cancelled reader
cancels it. An interrupt from elsewhere ends the wait for the engine the way `asyncio.timeout` does;
the reader never sees it as its own cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from torvyn._contract.enums import PriorityClass
from torvyn._io.background_loop import await_if_abandoned
from torvyn._io.other_loops import require_asyncio
from torvyn._io.turns import Share
from torvyn.engine.answer.answer import Reader
from torvyn.engine.answer.outcome import Outcome
from torvyn.engine.answer.response import Response
from torvyn.engine.delta import Delta, Piece
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.engine.timing import Clock, Timing
from torvyn.errors import TorvynError
from torvyn.protocol.frames import FinishReason, Usage

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import AnswerFlows
    from torvyn.engine.answer.direct_path import DirectPath
    from torvyn.engine.answer.offloaded_flows import OffloadedFlows
    from torvyn.engine.engine import Engine
    from torvyn.engine.prompt.prompt_flow import PromptFlow

logger = logging.getLogger("torvyn.engine")


class EngineRun:
    """`push` or `deltas`, once. Only `interrupt` may be called from other threads."""

    __slots__ = (
        "__weakref__",
        "_cancelling",
        "_cancelling_first",
        "_closing",
        "_engine",
        "_has_cancelled",
        "_is_engine_over",
        "_is_resumed",
        "_loop",
        "_offload",
        "_steps",
        "direct",
        "flows",
        "inline_flows",
        "interrupt_reason",
        "is_interrupted",
        "prompt",
        "request",
        "response",
        "task",
        "timing",
    )

    def __init__(
        self,
        engine: Engine,
        request: Request,
        clock: Clock = time.perf_counter,
        flows: AnswerFlows | None = None,
        prompt: PromptFlow | None = None,
    ) -> None:
        """Pieces go through `flows`, and the request through `prompt` before the engine sees it."""
        self.request = request
        self.prompt = prompt
        self.flows = flows
        self.inline_flows = flows
        """The flows that run inside `push`, if there are any."""
        self._offload: OffloadedFlows | None = None
        if flows is not None and flows.are_offloaded:
            from torvyn.engine.answer.offloaded_flows import OffloadedFlows

            self.inline_flows, self._offload = None, OffloadedFlows(flows)
        self.timing = Timing(clock)
        self.direct: DirectPath | None = None
        """How plain text may reach the reader without a step here."""
        self.response = Response(request, engine.vocabulary, is_limited=engine.limits_tokens)
        self.is_interrupted = False
        self.interrupt_reason: FinishReason = "cancelled"
        self._is_engine_over = False
        self._is_resumed = False
        """The reader was waited for, so others take their turns first."""
        self._engine = engine
        self._steps: AsyncIterator[Step] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task that waits for the engine; None while the reader works."""
        self._has_cancelled = False
        self._cancelling = self._cancelling_first = 0
        self._closing: asyncio.Task[None] | None = None

    @property
    def usage(self) -> Usage:
        self.count_direct()
        return self.response.usage

    @property
    def has_content(self) -> bool:
        """Whether the engine has generated anything."""
        self.count_direct()
        return any(choice.tokens for choice in self.response.choices)

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        flows = self.flows
        return self.response.finish_reasons if flows is None else tuple(flows.finish_reasons)

    @property
    def is_prompt_blocked(self) -> bool:
        """A guard blocked the prompt, so the engine was not called."""
        return self.prompt is not None and self.prompt.is_blocked

    @property
    def is_over(self) -> bool:
        return self._is_engine_over and (self._offload is None or self._offload.is_over)

    async def push(self, reader: Reader) -> None:
        """Gives every piece to the reader, then raises the error of the engine or of a flow."""
        add, delivered = reader.add, self.timing.delivered
        direct = self._offer_direct(reader)
        async with contextlib.aclosing(self._batches()) as batches:
            async for batch in batches:
                is_due = direct is not None and direct.takes_due()
                for piece in batch:
                    if isinstance(piece, str) or piece.text or piece.call is not None:
                        delivered()
                    is_due = add(piece) or is_due
                if is_due and (sending := reader.flush()) is not None:
                    self._set_task(None)
                    await sending
                    self._is_resumed = True
                    self._set_task(asyncio.current_task(self._loop))

    def _offer_direct(self, reader: Reader) -> DirectPath | None:
        offer, request = getattr(reader, "direct_text", None), self.request
        is_simple = request.n == 1 and not request.logprobs and self._offload is None
        if offer is not None and is_simple and self.timing.is_of(time.perf_counter):
            from torvyn.engine.answer.direct_path import DirectPath

            self.direct = DirectPath(offer, self.response, self.inline_flows, self.timing)
        return self.direct

    def count_direct(self) -> None:
        """Takes over what the direct path has counted."""
        if self.direct is not None:
            self.direct.count()

    async def batches(self) -> AsyncGenerator[Sequence[Piece], None]:
        """The same for `for`, the pieces of each step together; the reader tells the timing when
        they reach it."""
        async with contextlib.aclosing(self._batches()) as batches:
            async for batch in batches:
                self._set_task(None)
                yield batch
                self._set_task(asyncio.current_task(self._loop))

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """The same for `async for`."""
        current_task, delivered = asyncio.current_task, self.timing.delivered
        is_inline = self._offload is None
        async with contextlib.aclosing(self._batches()) as batches:
            async for batch in batches:
                for piece in batch:
                    if isinstance(piece, str) or piece.text or piece.call is not None:
                        delivered()
                    if is_inline:
                        self.task = None
                    yield Delta(0, piece) if isinstance(piece, str) else piece
                    if is_inline:
                        self.task = current_task(self._loop)

    def _set_task(self, task: asyncio.Task[Any] | None) -> None:
        """Who waits for the engine from now on; with offloaded flows it is never the reader."""
        if self._offload is None:
            self.task = task

    def _batches(self) -> AsyncGenerator[Sequence[Piece], None]:
        """The pieces of each step, through the flows, to the usage at the end; then raises."""
        return self.engine_batches() if self._offload is None else self._offload.batches(self)

    async def engine_batches(self) -> AsyncGenerator[Sequence[Piece], None]:
        """The same, through the inline flows only: the one loop over an engine's steps."""
        response, flows, direct = self.response, self.inline_flows, self.direct
        engine_steps = await self._start()
        share = Share(PriorityClass(self.request.priority).weight)
        steps: AsyncIterator[Any] = engine_steps if direct is None else direct.read(engine_steps)
        async with Outcome(self) as outcome:
            self.task = asyncio.current_task(self._loop)
            async for step in steps:
                if direct is not None:
                    pieces = direct.pieces(step)
                else:
                    pieces = response.pieces(step)
                    if flows is not None:
                        pieces = flows.feed(pieces)
                is_cut = response.is_cut or (flows is not None and flows.is_cut)
                if is_cut:
                    self._note_cut()
                    await self.close_steps()
                if pieces or (direct is not None and direct.is_due):
                    yield pieces
                if is_cut or self.is_interrupted:
                    break
                if (
                    self._is_resumed
                    or share.is_over()
                    or (direct is not None and direct.is_turn_over)
                ):
                    await share.take_turn()
                    self._is_resumed = False
                    if direct is not None:
                        direct.begin_turn()
        yield outcome.pieces
        if outcome.failure is not None:
            raise outcome.failure

    def _note_cut(self) -> None:
        """Logs that an engine did not end where it should have."""
        if self._engine.limits_tokens and "length" in self.response.finish_reasons:
            name, limit = self._engine.name, self.request.max_tokens
            extra = {"event": "engine.limit-ignored", "request_id": self.request.id}
            message = "request %s: `%s` went on after max_tokens = %s and was cut"
            logger.info(message, self.request.id, name, limit, extra=extra)

    def interrupt(self, reason: FinishReason = "cancelled") -> None:
        """Ends it. From any thread, at any time and any number of times; the first reason counts.

        `cancelled` drops text that is held back; `stop` releases it.
        """
        if not self.is_interrupted:
            self.interrupt_reason = reason
        self.is_interrupted = True
        if self.direct is not None:
            self.direct.shut()
        loop = self._loop
        if loop is not None and not self._is_engine_over:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._interrupt_here)
        if self._offload is not None:
            self._offload.interrupt(reason)

    def update(self, stop: str | Sequence[str] | None, max_tokens: int | None) -> None:
        """Changes the stop strings or the limit for text that is still to be released. Call it on
        the loop's thread."""
        if self.direct is not None:
            self.direct.disarm()
        self.request = request = Request.make(self.request, stop=stop, max_tokens=max_tokens)
        if self._is_engine_over:
            return
        is_due = self.response.update(
            request, is_stop=stop is not None, is_limit=max_tokens is not None
        )
        if is_due and self._loop is not None:
            # Nothing more of the engine's output counts, and its next step may take long.
            self.interrupt("length")

    async def _start(self) -> AsyncIterator[Step]:
        self._loop = require_asyncio("`async for` over an answer")
        if (task := asyncio.current_task(self._loop)) is not None:
            self._cancelling_first = task.cancelling()
        try:
            self._engine._enter(self)
        except TorvynError:
            await await_if_abandoned()
            raise
        self.timing.started()
        if self.request.max_tokens == 0 or self.is_interrupted:
            self._steps = _no_steps()
        elif self.prompt is not None:
            self._steps = self.prompt.steps(self._engine, self.request)
        else:
            self._steps = aiter(self._engine.steps(self.request))
        return self._steps

    def _interrupt_here(self) -> None:
        if self._is_engine_over:
            return
        if self.task is None:
            # Stop the engine now; the reader notices when it returns.
            assert self._loop is not None
            self._closing = self._loop.create_task(self.close_steps(), name="torvyn-abort")
        elif self.task is not asyncio.current_task() and not self._has_cancelled:
            # Once, because each cancellation of a task has to be taken back.
            self._has_cancelled = True
            self._cancelling = self.task.cancelling()
            self.task.cancel()

    def takes_back_cancellation(self) -> bool:
        """Takes back the cancellation of the task, if `interrupt` alone caused it."""
        task = self.task
        return self._has_cancelled and task is not None and task.uncancel() <= self._cancelling

    def is_reader_cancelled(self) -> bool:
        """Whether the task that waits for the engine was cancelled; if not, the engine cancelled
        itself."""
        task = self.task
        return task is None or task.cancelling() > self._cancelling_first

    async def close_steps(self) -> None:
        if (close := getattr(self._steps, "aclose", None)) is not None:
            # An engine that fails to clean up does not fail the request.
            with contextlib.suppress(Exception):
                await close()

    def end(self, reason: FinishReason) -> list[Piece]:
        """The last pieces before the flows, the usage at the end."""
        if self.request.max_tokens == 0 and reason == "stop":
            reason = "length"
        if self.direct is not None:
            self.direct.close()
        self._is_engine_over = True
        self.timing.ended()
        self._engine._leave(self)
        return self.response.end(reason, is_early=self.is_interrupted)


async def _no_steps() -> AsyncGenerator[Step, None]:
    """The steps of a request for no tokens."""
    return
    yield
