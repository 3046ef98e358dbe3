"""The flow in front of an engine: guards see the texts of a request before the model does.

The flow runs once per request, whatever the number of choices, in the task that reads the answer.
If it blocks, the engine is not called and every choice ends as `content_filter`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torvyn._contract.element import Element, Output
from torvyn.engine.prompt.prompt import Prompt
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import FlowError, LinkError, TorvynError
from torvyn.protocol.frames import FinishReason

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn.engine.engine import Engine

BLOCKED: FinishReason = "content_filter"


@dataclass(frozen=True, slots=True)
class PromptGuard:
    """The flow in front of an engine."""

    make_flow: Callable[[], Flow]
    """Makes a flow without a source and without a sink."""
    roles: Collection[str] | None = None
    """The roles whose texts go through the flow; None means all."""


class PromptFlow:
    """The flow of one request."""

    def __init__(self, guard: PromptGuard, request_id: str) -> None:
        self.flow = flow = guard.make_flow()
        flow.request_id = request_id
        plan = flow.plan
        if plan.head is None or plan.tail is None:
            raise LinkError(
                "engine.flow-unfit",
                f"a prompt cannot go through flow `{plan.name}`: it has its own source or sink",
                hint="remove them: the request is the source, and the engine is the sink",
            )
        self._roles = guard.roles
        self._is_offloaded = any(node.run != "inline" for node in plan.nodes)
        self._ready = asyncio.Event()
        self.is_blocked = False
        """A guard blocked the request."""

    def steps(self, engine: Engine, request: Request) -> AsyncIterator[Step]:
        """The steps of the engine for the request that leaves this flow."""
        return PromptedSteps(engine, request, self)

    async def rewrite(self, request: Request) -> Request | None:
        """The request with the texts that left the flow; None if the flow blocked it."""
        prompt, flow = Prompt(request, self._roles), self.flow
        try:
            if self._is_offloaded:
                # Starting may block, even on this loop.
                await asyncio.to_thread(flow.feed, [])
                flow.on_ready(self._ready.set)
            for element in await self._run(prompt.outputs()):
                prompt.add(element)
        finally:
            if flow.end is None:
                await asyncio.shield(asyncio.ensure_future(self._close_off_loop()))
        end = flow.end
        is_stopped = end is None or end.finish_reason == BLOCKED
        result = None if is_stopped else prompt.request()
        self.is_blocked = result is None
        return result

    async def _run(self, waiting: list[Output]) -> list[Element]:
        """Feeds all texts and returns the output of the flow."""
        flow, output, is_finished = self.flow, list[Element](), False
        while True:
            if waiting:
                waiting = self._feed(waiting, output)
            elif is_finished:
                output += flow.ready()
            if not waiting and not is_finished and flow.end is None:
                is_finished = True
                output += flow.finish()
            if flow.end is not None:
                return output
            await self._ready.wait()
            self._ready.clear()

    def _feed(self, waiting: list[Output], output: list[Element]) -> list[Output]:
        """Feeds until the flow is full; returns the rest."""
        try:
            output += self.flow.feed(waiting)
        except FlowError as error:
            if error.code != "reactor.feed-full":
                raise
            output += error.ready
            return waiting[error.accepted or 0 :]
        return []

    async def _close_off_loop(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.flow.cancel()
        with contextlib.suppress(TorvynError):
            self.flow.ready()


class PromptedSteps(AsyncIterator[Step]):
    """The steps of an engine, after the prompt has gone through its flow."""

    __slots__ = ("_engine", "_flow", "_request", "_steps")

    def __init__(self, engine: Engine, request: Request, flow: PromptFlow) -> None:
        self._engine = engine
        self._request = request
        self._flow = flow
        self._steps: AsyncIterator[Step] | None = None

    def __anext__(self) -> Awaitable[Step]:
        # No extra coroutine per token: after the first step, the engine's own.
        steps = self._steps
        return self._first() if steps is None else steps.__anext__()

    async def aclose(self) -> None:
        if isinstance(self._steps, AsyncGenerator):
            await self._steps.aclose()

    async def _first(self) -> Step:
        request = await self._flow.rewrite(self._request)
        if request is None:
            self._steps = _blocked(self._request.n)
        else:
            self._steps = aiter(self._engine.steps(request))
        return await anext(self._steps)


async def _blocked(choices: int) -> AsyncGenerator[Step, None]:
    yield Step([ChoiceStep(at, tokens=0, finish_reason=BLOCKED) for at in range(choices)])
