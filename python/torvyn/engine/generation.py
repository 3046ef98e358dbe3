"""A generation: one answer on its way, to be read with `for` or `async for`, once.

`async for` drives the engine on the running loop. `for` lets the shared background loop drive it
and takes what is ready in batches from a bounded buffer. Leaving either loop, `close()`, or letting
go of the iterator ends the engine's request at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torvyn.concurrency.background_loop import background_loop
from torvyn.concurrency.context_managers import AsyncCloseOnExit, CloseOnExit
from torvyn.concurrency.sync_reader import SyncReader
from torvyn.engine.answer.engine_run import Run
from torvyn.engine.answer.push import Reader
from torvyn.engine.completion import Joined
from torvyn.engine.delta import Completion, Delta
from torvyn.engine.request import Request
from torvyn.engine.timing import Clock
from torvyn.errors import InvalidInput
from torvyn.protocol.frames import FilterSide, FinishReason, Kind, Usage

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import MakeFlow
    from torvyn.engine.answer.offloaded_run import AwayRun
    from torvyn.engine.engine import Engine
    from torvyn.engine.prompt.prompt_flow import PromptFlow, PromptGuard
    from torvyn.reactor import Statistics


@dataclass(frozen=True, slots=True)
class FlowAccount:
    """What one of the flows of an answer has counted."""

    side: FilterSide
    choice: int | None
    """None for the prompt, which all choices share."""
    kind: Kind
    statistics: Statistics

    def to_dict(self) -> dict[str, Any]:
        about = {"side": self.side, "choice": self.choice, "kind": self.kind}
        return {**about, **self.statistics.to_dict()}


class Generation(CloseOnExit, AsyncCloseOnExit):
    """Made by `Engine.generate`. Nothing is asked of the engine before the first delta is."""

    __slots__ = (
        "_is_taken",
        "_run",
        "request",
    )

    def __init__(
        self,
        engine: Engine,
        request: Request,
        clock: Clock = time.perf_counter,
        through: MakeFlow | None = None,
        prompt: PromptGuard | None = None,
    ) -> None:
        self.request = request
        self._run: Run | AwayRun
        flow = None if prompt is None else _prompt_flow(prompt, request)
        if through is None:
            self._run = Run(engine, request, clock, None, flow)
        else:
            self._run = _through(engine, request, clock, through, flow)
        self._is_taken = False

    @property
    def request_id(self) -> str:
        return self.request.id

    def log_as(self, request_id: str) -> None:
        """What its flows call the request in logs; before it is read. Without it, its own id."""
        prompt, lanes = self._run.prompt, self._run.lanes
        if prompt is not None:
            prompt.flow.request_id = request_id
        if lanes is not None:
            lanes.log_as(request_id)

    @property
    def usage(self) -> Usage:
        """The tokens so far; after the end, or an abort, all there were."""
        return self._run.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        """How each choice ended; None while it has not."""
        return self._run.finish_reasons

    @property
    def filtered_side(self) -> FilterSide | None:
        """Where a guard ended a choice as `content_filter`: in the prompt, then the engine was
        never asked, or in the completion. None: no choice ended so."""
        if "content_filter" not in self.finish_reasons:
            return None
        return "prompt" if self._run.is_prompt_blocked else "completion"

    @property
    def timing(self) -> dict[str, float]:
        """The figures of `torvyn.engine.Timing`, as far as they are known."""
        return self._run.timing.figures(self.usage)

    @property
    def accounts(self) -> tuple[FlowAccount, ...]:
        """What the flows that it goes through have counted: that of the prompt first, then one for
        each choice and kind of delta."""
        prompt, lanes = self._run.prompt, self._run.lanes
        made = []
        if prompt is not None:
            made.append(FlowAccount("prompt", None, "text", prompt.flow.statistics))
        for lane in () if lanes is None else lanes.all():
            made.append(FlowAccount("completion", lane.index, lane.kind, lane.flow.statistics))
        return tuple(made)

    def __aiter__(self) -> AsyncGenerator[Delta, None]:
        self._take()
        return self._run.deltas(self._run.timing.delivered)

    def push(self, reader: Reader) -> Awaitable[None]:
        """Gives the deltas to a reader, in this task, and lets it send whenever the engine waits.
        What it had gathered last it sends itself."""
        self._take()
        return self._run.push(reader)

    def __iter__(self) -> Generator[Delta, None, None]:
        self._take()
        loop = background_loop()
        if asyncio._get_running_loop() is loop:
            raise InvalidInput(
                "a `for` loop here would wait for the loop that it blocks",
                hint="use `async for`",
                code="engine.would-block",
            )
        deltas = self._run.deltas(_not_yet)
        return self._deltas(SyncReader(deltas, loop, self._run.interrupt))

    def _deltas(self, reader: SyncReader[Delta]) -> Generator[Delta, None, None]:
        delivered = self._run.timing.delivered
        with contextlib.closing(reader):
            for delta in reader:
                if delta.text or delta.call is not None:
                    delivered()
                yield delta

    def complete(self) -> Completion:
        """The whole answer: its deltas, joined."""
        joined = Joined(self.request)
        for delta in self:
            joined.add(delta)
        return joined.completion(self.usage, self.timing, self.filtered_side)

    async def acomplete(self) -> Completion:
        joined = Joined(self.request)
        async for delta in self:
            joined.add(delta)
        return joined.completion(self.usage, self.timing, self.filtered_side)

    def stop(self) -> None:
        """Ends it in good order, from any thread: the reader gets what was held and the finish
        `stop`."""
        self._run.interrupt("stop")

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """Changes what ends it, for text that was not released yet; on the thread of the loop that
        reads it. None leaves as it is; no stops are `[]`. Raises `InvalidInput`.

        Below what was made already, `max_tokens` ends it as `length`; flows that hold text back
        have taken what they hold.
        """
        self.request = self._run.update(stop, max_tokens)

    def close(self) -> None:
        """Ends it at once: from any thread, in the middle of a loop or before it. A reader that
        is still there gets the finish `cancelled`."""
        self._run.interrupt()

    async def aclose(self) -> None:
        """The same, for coroutines."""
        self.close()

    def _take(self) -> None:
        if self._is_taken:
            raise InvalidInput(
                f"the generation {self.request_id} was read before",
                hint="call `generate` again, or keep its deltas in a list",
                code="engine.already-read",
            )
        self._is_taken = True


def _through(
    engine: Engine,
    request: Request,
    clock: Clock,
    make_flow: MakeFlow,
    prompt: PromptFlow | None,
) -> Run | AwayRun:
    # Flows stand on the reactor, which many programs with an engine never need.
    from torvyn.engine.answer.answer_flows import Lanes

    lanes = Lanes(request, make_flow)
    if not lanes.are_away:
        return Run(engine, request, clock, lanes, prompt)
    from torvyn.engine.answer.offloaded_run import AwayRun

    return AwayRun(Run(engine, request, clock, None, prompt), lanes)


def _prompt_flow(guard: PromptGuard, request: Request) -> PromptFlow:
    from torvyn.engine.prompt.prompt_flow import PromptFlow

    return PromptFlow(guard, request.id)


def _not_yet() -> None:
    """In the buffer is not delivered."""
