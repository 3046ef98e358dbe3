"""An answer through flows with stages that work elsewhere: coroutines and threads.

A task reads the engine and is never far ahead; what the flows make is handed on when they ring. A
flow that is behind stops the engine, and an end in any phase leaves no task, thread or flow behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from torvyn.engine.answer.answer_flows import Lanes
from torvyn.engine.answer.engine_run import Run
from torvyn.engine.answer.push import Reader, push
from torvyn.engine.delta import Delta
from torvyn.engine.prompt.prompt_flow import PromptFlow
from torvyn.engine.request import Request
from torvyn.protocol.frames import FinishReason, Usage

AHEAD: Final = 64
"""Deltas that the engine may be ahead of the flows."""


class AwayRun:
    """A `Run` whose deltas go through lanes that may take their time."""

    def __init__(self, run: Run, lanes: Lanes) -> None:
        self.request = run.request
        self.timing = run.timing
        self.is_over = False
        self._run = run
        self._lanes = lanes
        self._arrived: list[Delta] = []
        self._is_read = False
        self._is_cancelled = False
        self._failure: Exception | None = None
        self._rung = asyncio.Event()
        self._room = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def usage(self) -> Usage:
        return self._run.usage

    @property
    def is_prompt_blocked(self) -> bool:
        return self._run.is_prompt_blocked

    @property
    def lanes(self) -> Lanes:
        return self._lanes

    @property
    def prompt(self) -> PromptFlow | None:
        return self._run.prompt

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return tuple(self._lanes.reasons)

    def interrupt(self, reason: FinishReason = "cancelled") -> None:
        """Ends it, from any thread. As `cancelled` also when only the flows still work; as `stop`
        they end their work."""
        self._is_cancelled = self._is_cancelled or reason == "cancelled"
        self._run.interrupt(reason)
        if self._loop is not None and not self.is_over:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._rung.set)

    def update(self, stop: str | Sequence[str] | None, max_tokens: int | None) -> Request:
        """For what the flows have not been given yet."""
        self.request = self._run.update(stop, max_tokens)
        return self.request

    async def deltas(self, delivered: Callable[[], None]) -> AsyncGenerator[Delta, None]:
        self._loop = asyncio.get_running_loop()
        pump = asyncio.create_task(self._pump(), name="torvyn-shaping")
        reason: FinishReason = "cancelled"
        try:
            while not self._is_done():
                await self._rung.wait()
                self._rung.clear()
                made = await self._advance()
                if self._lanes.is_cut:
                    # The engine hears of it before anybody else does.
                    await _ended(pump)
                for delta in made:
                    if delta.text or delta.call is not None:
                        delivered()
                    yield delta
        except Exception as error:
            self._failure, reason = error, "error"
        finally:
            await self._leave(pump)
        for delta in self._lanes.end("error" if self._failure is not None else reason):
            yield delta
        yield Delta(usage=self.usage)
        if self._failure is not None:
            raise self._failure

    async def push(self, reader: Reader) -> None:
        await push(self.deltas(self.timing.delivered), reader)

    def _is_done(self) -> bool:
        return self._is_cancelled or (self._lanes.is_over and (self._is_read or self._lanes.is_cut))

    async def _advance(self) -> list[Delta]:
        made = self._lanes.collect()
        if self._lanes.is_full or not self._arrived:
            return made
        batch, self._arrived = self._arrived, []
        self._room.set()
        for run in self._lanes.runs(batch):
            for lane in self._lanes.missing(run):
                # Starting may block, also on this very loop.
                await asyncio.to_thread(lane.open)
                lane.flow.on_ready(self._rung.set)
            # What is left over is taken when a flow rings.
            made += self._lanes.take(run)
        return made

    async def _pump(self) -> None:
        inner = self._run.deltas(_not_yet)
        try:
            async with contextlib.aclosing(inner):
                async for delta in inner:
                    self._arrived.append(delta)
                    self._rung.set()
                    while len(self._arrived) >= AHEAD:
                        self._room.clear()
                        await self._room.wait()
        except Exception as error:
            self._failure = error
        finally:
            self._is_read = True
            self._rung.set()

    async def _leave(self, pump: asyncio.Task[None]) -> None:
        self.is_over = True
        await _ended(pump)
        closing = asyncio.ensure_future(asyncio.to_thread(self._lanes.close))
        await asyncio.shield(closing)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _not_yet() -> None:
    """What goes into a flow is not delivered."""
