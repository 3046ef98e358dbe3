"""A request through the flow in front of an engine: guards see its texts before the model does.

The flow runs once for a request, whatever the number of its choices, in the task that reads the
answer. When it blocks, the engine is never asked and every choice ends as `content_filter`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torvyn.contract import Element, Output
from torvyn.engine.prompt.prompt import Prompt
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import FlowError, LinkError, TorvynError
from torvyn.protocol.frames import FinishReason

if TYPE_CHECKING:
    from torvyn.engine.engine import Engine
    from torvyn.reactor import Flow

BLOCKED: FinishReason = "content_filter"


@dataclass(frozen=True, slots=True)
class PromptGuard:
    """What a service has in front of its engine."""

    make_flow: Callable[[], Flow]
    """Makes a flow that is fed and iterated: without a source, without a sink."""
    roles: Collection[str] | None = None
    """Whose texts go through it; None: everybody's."""


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
        self._is_away = any(node.run != "inline" for node in plan.nodes)
        self._rung = asyncio.Event()
        self.is_blocked = False
        """It has refused the request."""

    def steps(self, engine: Engine, request: Request) -> AsyncIterator[Step]:
        """The steps of an engine that is asked what this flow leaves of the request."""
        return PromptedSteps(engine, request, self)

    async def rewritten(self, request: Request) -> Request | None:
        """The request as the flow has left it; None when the flow has blocked it."""
        prompt, flow = Prompt(request, self._roles), self.flow
        try:
            if self._is_away:
                # Starting may block, also on this very loop.
                await asyncio.to_thread(flow.feed, [])
                flow.on_ready(self._rung.set)
            for element in await self._passed(prompt.outputs()):
                prompt.add(element)
        finally:
            if flow.end is None:
                await asyncio.shield(asyncio.ensure_future(self._closed()))
        end = flow.end
        is_stopped = end is None or end.finish_reason == BLOCKED
        left = None if is_stopped else prompt.request()
        self.is_blocked = left is None
        return left

    async def _passed(self, waiting: list[Output]) -> list[Element]:
        """What leaves the flow when all of it has gone in."""
        flow, passed, is_finished = self.flow, list[Element](), False
        while True:
            if waiting:
                waiting = self._feed(waiting, passed)
            elif is_finished:
                passed += flow.ready()
            if not waiting and not is_finished and flow.end is None:
                is_finished = True
                passed += flow.finish()
            if flow.end is not None:
                return passed
            await self._rung.wait()
            self._rung.clear()

    def _feed(self, waiting: list[Output], passed: list[Element]) -> list[Output]:
        """Feeds as far as it goes; what is left."""
        try:
            passed += self.flow.feed(waiting)
        except FlowError as error:
            if error.code != "reactor.feed-full":
                raise
            passed += error.ready
            return waiting[error.accepted or 0 :]
        return []

    async def _closed(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.flow.cancel()
        with contextlib.suppress(TorvynError):
            self.flow.ready()


class PromptedSteps(AsyncIterator[Step]):
    """The steps of an engine that is asked what its prompt's flow has left."""

    __slots__ = ("_engine", "_flow", "_request", "_steps")

    def __init__(self, engine: Engine, request: Request, flow: PromptFlow) -> None:
        self._engine = engine
        self._request = request
        self._flow = flow
        self._steps: AsyncIterator[Step] | None = None

    def __anext__(self) -> Awaitable[Step]:
        # No coroutine of ours for each token: after the first, the engine's own.
        steps = self._steps
        return self._first() if steps is None else steps.__anext__()

    async def aclose(self) -> None:
        if isinstance(self._steps, AsyncGenerator):
            await self._steps.aclose()

    async def _first(self) -> Step:
        request = await self._flow.rewritten(self._request)
        if request is None:
            self._steps = _blocked(self._request.n)
        else:
            self._steps = aiter(self._engine.steps(request))
        return await anext(self._steps)


async def _blocked(choices: int) -> AsyncGenerator[Step, None]:
    yield Step([ChoiceStep(at, tokens=0, finish_reason=BLOCKED) for at in range(choices)])
