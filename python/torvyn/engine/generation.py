"""A generation: an answer of an engine in this process, read once with `for` or `async for`.

`async for` drives the engine on the running loop. `for` lets the shared background loop drive it,
which is at most 64 bytes, or one step of the engine, ahead of what the reader has taken. Leaving
the loop, dropping the iterator or calling `close()` ends the engine's request at once; usage counts
what the engine has made.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.background_loop import SyncReader, background_loop, wait_for
from torvyn._io.closing import AsyncCloseOnExit, CloseOnExit
from torvyn.engine.answer.answer import Answer, FlowAccount, Reader
from torvyn.engine.answer.engine_run import EngineRun
from torvyn.engine.delta import Completion, Delta, Piece
from torvyn.engine.request import Request
from torvyn.engine.timing import Clock
from torvyn.errors import InvalidInput
from torvyn.protocol.frames import FilterSide, FinishReason, Usage

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import AnswerFlows, MakeFlow
    from torvyn.engine.engine import Engine
    from torvyn.engine.prompt.prompt_flow import PromptFlow, PromptGuard


class Generation(Answer, CloseOnExit, AsyncCloseOnExit):
    """Made by `Engine.generate`. The engine starts with the first read."""

    __slots__ = ("_is_read", "_run")

    def __init__(
        self,
        engine: Engine,
        request: Request,
        clock: Clock = time.perf_counter,
        through: MakeFlow | None = None,
        prompt: PromptGuard | None = None,
    ) -> None:
        prompt_flow = None if prompt is None else _prompt_flow(prompt, request)
        flows = None if through is None else _answer_flows()(request, through)
        self._run = EngineRun(engine, request, clock, flows, prompt_flow)
        self._is_read = False

    @property
    def request(self) -> Request:
        """The request, with its updates."""
        return self._run.request

    @property
    def usage(self) -> Usage:
        return self._run.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        return self._run.finish_reasons

    @property
    def filtered_side(self) -> FilterSide | None:
        if "content_filter" not in self.finish_reasons:
            return None
        return "prompt" if self._run.is_prompt_blocked else "completion"

    @property
    def timing(self) -> dict[str, float]:
        self._run.count_direct()
        return self._run.timing.figures(self.usage)

    @property
    def accounts(self) -> tuple[FlowAccount, ...]:
        prompt, flows = self._run.prompt, self._run.flows
        accounts = [] if flows is None else flows.accounts
        if prompt is not None:
            accounts.insert(0, FlowAccount("prompt", None, "text", prompt.flow.statistics))
        return tuple(accounts)

    def push(self, reader: Reader) -> Coroutine[Any, Any, None]:
        self._read_once()
        return self._run.push(reader)

    def __aiter__(self) -> AsyncGenerator[Delta, None]:
        self._read_once()
        return self._run.deltas()

    def __iter__(self) -> Generator[Delta, None, None]:
        self._read_once()
        loop = _other_loop()
        batches = self._run.batches()
        return self._deltas(SyncReader(batches, loop, self._run.interrupt, size=_size_bytes))

    def _deltas(self, reader: SyncReader[Sequence[Piece]]) -> Generator[Delta, None, None]:
        delivered = self._run.timing.delivered
        try:
            for batch in reader:
                for piece in batch:
                    if isinstance(piece, str):
                        delivered()
                        yield Delta(0, piece)
                    else:
                        if piece.text or piece.call is not None:
                            delivered()
                        yield piece
        finally:
            reader.leave()

    def complete(self) -> Completion:
        """The whole answer: its deltas, joined."""
        loop = _other_loop()
        return wait_for(self.acomplete(), loop)

    def stop(self) -> None:
        self._run.interrupt("stop")

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        self._run.update(stop, max_tokens)

    def close(self) -> None:
        self._run.interrupt()

    async def aclose(self) -> None:
        """The same, for coroutines."""
        self.close()

    def _read_once(self) -> None:
        if self._is_read:
            raise InvalidInput(
                f"the generation {self.request_id} was read before",
                hint="call `generate` again, or keep its deltas in a list",
                code="engine.already-read",
            )
        self._is_read = True


_FOR_FLOWS: Final = (
    "torvyn._flow.execution",
    "torvyn.engine.answer.direct_path",
    "torvyn.engine.prompt.prompt_flow",
)


def load_flows() -> None:
    """Imports what answers through flows need."""
    for name in _FOR_FLOWS:
        import_module(name)
    _answer_flows()


@functools.cache
def _answer_flows() -> type[AnswerFlows]:
    # Flows need the reactor, which many programs with an engine never load. An import that has been
    # done costs a server more than the call of a cached function.
    from torvyn.engine.answer.answer_flows import AnswerFlows

    return AnswerFlows


def _prompt_flow(guard: PromptGuard, request: Request) -> PromptFlow:
    from torvyn.engine.prompt.prompt_flow import PromptFlow

    return PromptFlow(guard, request.id)


def _other_loop() -> asyncio.AbstractEventLoop:
    """The background loop, for a thread that waits for it."""
    loop = background_loop()
    if asyncio._get_running_loop() is loop:
        raise InvalidInput(
            "a `for` loop here would wait for the loop that it blocks",
            hint="use `async for`",
            code="engine.would-block",
        )
    return loop


def _size_bytes(batch: Sequence[Piece]) -> int:
    """The size of its text, and 1 for a batch that has none."""
    size_bytes = 0
    for piece in batch:
        text = piece if isinstance(piece, str) else piece.text
        size_bytes += len(text) if text.isascii() else len(text.encode(errors="replace"))
    return size_bytes or 1
