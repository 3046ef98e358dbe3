"""An answer through flows with async or threaded stages.

A task runs the engine and is at most `AHEAD` pieces ahead of the flows; the reader's task feeds the
flows and takes their output when they signal it. However it ends, no task, thread or flow remains.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

from torvyn.engine.delta import Delta, Piece
from torvyn.protocol.frames import FinishReason

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import AnswerFlows
    from torvyn.engine.answer.engine_run import EngineRun

AHEAD: Final = 64
"""Pieces that the engine may be ahead of the flows."""


class OffloadedFlows:
    """How the pieces of an `EngineRun` travel when its flows are offloaded."""

    def __init__(self, flows: AnswerFlows) -> None:
        self.is_over = False
        self._flows = flows
        self._arrived: list[Piece] = []
        self._is_engine_over = False
        self._is_cancelled = False
        self._failure: Exception | None = None
        self._changed = asyncio.Event()
        self._has_space = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def interrupt(self, reason: FinishReason) -> None:
        """`cancelled` ends the flows as well; after any other reason they finish their work."""
        self._is_cancelled = self._is_cancelled or reason == "cancelled"
        if self._loop is not None and not self.is_over:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._changed.set)

    async def batches(self, run: EngineRun) -> AsyncGenerator[Sequence[Piece], None]:
        self._loop = asyncio.get_running_loop()
        engine = asyncio.create_task(self._run_engine(run), name="torvyn-engine-run")
        try:
            while not self._is_done():
                await self._changed.wait()
                self._changed.clear()
                pieces = await self._advance()
                if self._flows.is_cut:
                    # The engine stops before the reader learns of it.
                    await _cancel(engine)
                if pieces:
                    yield pieces
        except Exception as error:
            self._failure = error
        finally:
            await self._leave(engine)
        reason: FinishReason = "cancelled" if self._failure is None else "error"
        yield [*self._flows.end(reason), Delta(usage=run.usage)]
        if self._failure is not None:
            raise self._failure

    def _is_done(self) -> bool:
        is_drained = self._is_engine_over or self._flows.is_cut
        return self._is_cancelled or (self._flows.is_over and is_drained)

    async def _advance(self) -> list[Piece]:
        flows = self._flows
        out = flows.collect()
        if flows.is_full or not self._arrived:
            return out
        batch, self._arrived = self._arrived, []
        self._has_space.set()
        for segment in flows.segments(batch):
            for flow in flows.make_missing(segment):
                # Starting a flow may block, also on this very loop.
                await asyncio.to_thread(flow.open)
                flow.flow.on_ready(self._changed.set)
            # What a full flow does not take now follows when it signals.
            out += flows.feed(segment)
        return out

    async def _run_engine(self, run: EngineRun) -> None:
        try:
            async with contextlib.aclosing(run.engine_batches()) as batches:
                async for batch in batches:
                    self._arrived += batch
                    self._changed.set()
                    while len(self._arrived) >= AHEAD:
                        self._has_space.clear()
                        await self._has_space.wait()
        except Exception as error:
            self._failure = error
        finally:
            self._is_engine_over = True
            self._changed.set()

    async def _leave(self, engine: asyncio.Task[None]) -> None:
        self.is_over = True
        await _cancel(engine)
        closing = asyncio.ensure_future(asyncio.to_thread(self._flows.close))
        await asyncio.shield(closing)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
