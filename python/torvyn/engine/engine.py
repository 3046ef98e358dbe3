"""The interface of every engine: a subclass implements `steps`, a program calls `generate`.

`steps` yields raw output and stops when its generator is closed or cancelled. The rest of the
package handles text, stop strings, limits, usage, timing and aborts, the same for all engines.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn._io.closing import AsyncCloseOnExit, CloseOnExit
from torvyn.engine.answer.engine_run import EngineRun
from torvyn.engine.delta import Completion
from torvyn.engine.generation import Generation
from torvyn.engine.request import PromptLike, Request, invalid
from torvyn.engine.step import Step
from torvyn.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import MakeFlow
    from torvyn.engine.answer.direct_path import DirectPath
    from torvyn.engine.nodes.processor import EngineProcessor
    from torvyn.engine.nodes.source import EngineSource
    from torvyn.engine.prompt.prompt_flow import PromptGuard


class Engine(CloseOnExit, AsyncCloseOnExit, ABC):
    """Generates answers. One engine serves many requests, from any thread and any event loop."""

    name: ClassVar[str] = ""
    limits_tokens: ClassVar[bool] = False
    """It enforces `max_tokens` itself, and the token counts of its steps are estimates. More tokens
    than that are cut all the same."""
    is_replayable: ClassVar[bool] = False
    """The same request with the same seed gives the same answer, in another process too."""
    other_names: ClassVar[Mapping[str, str]] = {}
    """Names that people look for, and the name of the engine's option; for hints."""
    takes_extra: bool = False
    """It forwards the `extra` fields of a request, such as `top_k`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, EngineRun] = {}
        self._all_runs: weakref.WeakValueDictionary[str, EngineRun]
        self._all_runs = weakref.WeakValueDictionary()
        """Includes runs that have not started: `abort` may be called before the first delta."""
        self._is_closed = False

    @property
    def vocabulary(self) -> Any:
        """The vocabulary of the token ids in its steps; None if it sends bytes or text."""
        return None

    @abstractmethod
    def steps(self, request: Request) -> AsyncIterator[Step]:
        """An async generator of raw output.

        It gives a finish reason for each choice that ends, raises typed errors, and leaves nothing
        running when it is closed or cancelled.
        """

    def check(self, request: Request) -> None:
        """Raises `InvalidInput` if the engine cannot answer the request. It is called before any
        work starts, so that a server can reject the request with a status."""
        if request.extra and not self.takes_extra:
            names = ", ".join(f"`{name[:64]}`" for name in sorted(request.extra)[:8])
            raise invalid([f"the engine `{self.name}` does not forward {names}"])

    def can_repeat(self, request: Request) -> bool:
        """Whether the same request may give the same answer again: worth trying, never trusted."""
        return self.is_replayable or request.seed is not None or request.temperature == 0

    def describe(self) -> Mapping[str, Any]:
        """The engine and its model, for people and logs; never a secret."""
        return {"engine": self.name}

    def generate(
        self,
        prompt: PromptLike,
        *,
        through: MakeFlow | None = None,
        prompt_guard: PromptGuard | None = None,
        **options: Any,
    ) -> Generation:
        """The answer to a prompt, to a list of messages, or to a `Request`. `options` are fields of
        the request, such as `max_tokens`.

        `through` makes a flow for each choice, such as `lambda: torvyn.Flow(guard(), Sentence())`;
        the output of the flow is the answer. `prompt_guard` is a flow for the texts of the request.
        """
        request = Request.make(prompt, **options)
        self.check(request)
        generation = Generation(self, request, through=through, prompt=prompt_guard)
        with self._lock:
            self._all_runs[generation.request_id] = generation._run
        return generation

    def complete(self, prompt: PromptLike, **options: Any) -> Completion:
        """The whole answer. Blocks; in a coroutine, await `acomplete`."""
        return self.generate(prompt, **options).complete()

    async def acomplete(self, prompt: PromptLike, **options: Any) -> Completion:
        return await self.generate(prompt, **options).acomplete()

    def source(self, prompt: PromptLike, **options: Any) -> EngineSource:
        """The answer as the source of a flow: `torvyn.Flow(engine.source("Hello"), ...)`."""
        # Sources need components, which many programs with an engine never load.
        from torvyn.engine.nodes.source import EngineSource

        return EngineSource(self, Request.make(prompt, **options))

    def processor(self, **options: Any) -> EngineProcessor:
        """The engine as a processor: `torvyn.Flow(request.source(), guard, engine.processor())`.
        `options` are defaults for the request."""
        from torvyn.engine.nodes.processor import EngineProcessor

        return EngineProcessor(self, options)

    def abort(self, request_id: str) -> bool:
        """Ends a request as `cancelled`, from any thread. False if no request with this id runs."""
        with self._lock:
            runs = {self._runs.get(request_id), self._all_runs.get(request_id)}
        alive = [run for run in runs if run is not None and not run.is_over]
        for run in alive:
            run.interrupt()
        return bool(alive)

    def close(self) -> None:
        """Aborts running requests and frees the engine. It accepts no more requests."""
        with self._lock:
            self._is_closed = True
            runs = list(self._runs.values())
        for run in runs:
            run.interrupt()

    async def aclose(self) -> None:
        """The same, for coroutines."""
        self.close()

    def __repr__(self) -> str:
        details = ", ".join(f"{key}={value!r}" for key, value in self.describe().items())
        return f"<{type(self).__name__} {details}>"

    def _work_begins(self, request: Request) -> None:
        """For engines with a queue: ends the queue time of the request."""
        with self._lock:
            run = self._runs.get(request.id)
        if run is not None:
            run.timing.started()

    def _direct_path(self, request: Request) -> DirectPath | None:
        """For engines that read an upstream natively: the direct path of the request's run."""
        with self._lock:
            run = self._runs.get(request.id)
        return None if run is None else run.direct

    def _enter(self, run: EngineRun) -> None:
        request_id = run.request.id
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"the engine `{self.name}` is closed", code="engine.closed")
            if request_id in self._runs:
                raise InvalidInput(
                    f"a request with the id {request_id!r} is already running",
                    hint="omit `request_id`: every request then gets its own id",
                    code="engine.request-running",
                )
            self._runs[request_id] = run

    def _leave(self, run: EngineRun) -> None:
        with self._lock:
            if self._runs.get(run.request.id) is run:
                del self._runs[run.request.id]
