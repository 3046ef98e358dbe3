"""What every engine is: `steps` inside, `generate` and `complete` outside.

A subclass makes steps and stops making them when its generator is closed or cancelled; text, stop
strings, limits, usage, timing and aborts are the same for all and live elsewhere in this room.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torvyn.concurrency.context_managers import AsyncCloseOnExit, CloseOnExit
from torvyn.engine.answer.engine_run import EngineRun
from torvyn.engine.delta import Completion
from torvyn.engine.generation import Generation
from torvyn.engine.request import Message, Request, invalid
from torvyn.engine.step import Step
from torvyn.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from torvyn.engine.answer.answer_flows import MakeFlow
    from torvyn.engine.nodes.processor import EngineProcessor
    from torvyn.engine.nodes.source import EngineSource
    from torvyn.engine.prompt.prompt_flow import PromptGuard

Asked = str | Sequence[Message] | Request


class Engine(CloseOnExit, AsyncCloseOnExit, ABC):
    """Makes answers. One object serves many requests, from any thread and any loop."""

    name: ClassVar[str] = ""
    limits_tokens: ClassVar[bool] = False
    """It keeps to `max_tokens` itself, and the tokens of its steps are estimates."""
    is_replayable: ClassVar[bool] = False
    """The same request with the same seed gives the same answer, also in another process."""
    takes_extra: bool = False
    """It forwards the `extra` of a request: fields that only what is behind it knows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, EngineRun] = {}
        self._all_runs: weakref.WeakValueDictionary[str, EngineRun]
        self._all_runs = weakref.WeakValueDictionary()
        """Also those that nobody has read from: `abort` may come before the first delta."""
        self._is_closed = False

    @property
    def vocabulary(self) -> Any:
        """What the token ids of its steps mean; None when it sends bytes or text."""
        return None

    @abstractmethod
    def steps(self, request: Request) -> AsyncIterator[Step]:
        """An async generator of what the engine makes, as it makes it.

        It finishes each choice it knows the end of, raises typed errors, and leaves nothing running
        when it is closed or cancelled.
        """

    def check(self, request: Request) -> None:
        """Raises `InvalidInput` when the engine cannot be asked that. Called before anything is
        done for the request, so that a server can still refuse it with a status."""
        if request.extra and not self.takes_extra:
            names = ", ".join(f"`{name[:64]}`" for name in sorted(request.extra)[:8])
            raise invalid([f"the engine `{self.name}` does not forward {names}"])

    def describe(self) -> Mapping[str, Any]:
        """What it is, for people and logs; never a secret."""
        return {"engine": self.name}

    def generate(
        self,
        asked: Asked,
        *,
        through: MakeFlow | None = None,
        prompt_guard: PromptGuard | None = None,
        **options: Any,
    ) -> Generation:
        """An answer to a prompt, to messages, or to a `Request`; its options are the request's.

        `through` makes flows, such as `lambda: torvyn.Flow(guard(), Sentence())`: one for each
        choice, and what comes out of it is the answer. `prompt_guard` is a flow that the texts of
        the request go through before the engine is asked.
        """
        request = Request.make(asked, **options)
        self.check(request)
        generation = Generation(self, request, through=through, prompt=prompt_guard)
        with self._lock:
            self._all_runs[generation.request_id] = generation._run
        return generation

    def complete(self, asked: Asked, **options: Any) -> Completion:
        """The whole answer. Blocks; in a coroutine, await `acomplete`."""
        return self.generate(asked, **options).complete()

    async def acomplete(self, asked: Asked, **options: Any) -> Completion:
        return await self.generate(asked, **options).acomplete()

    def source(self, asked: Asked, **options: Any) -> EngineSource:
        """The answer as the source of a flow: `torvyn.Flow(engine.source("Hello"), ...)`."""
        # It stands on components, which many programs with an engine never need.
        from torvyn.engine.nodes.source import EngineSource

        return EngineSource(self, Request.make(asked, **options))

    def processor(self, **options: Any) -> EngineProcessor:
        """The engine behind a request: `torvyn.Flow(request.source(), guard, engine.processor())`.
        The options are those of a request that says nothing of them."""
        from torvyn.engine.nodes.processor import EngineProcessor

        return EngineProcessor(self, options)

    def abort(self, request_id: str) -> bool:
        """Ends that request as `cancelled`, from any thread. False: there is none of that id."""
        with self._lock:
            runs = {self._runs.get(request_id), self._all_runs.get(request_id)}
        alive = [run for run in runs if run is not None and not run.is_over]
        for run in alive:
            run.interrupt()
        return bool(alive)

    def close(self) -> None:
        """Aborts what runs and lets go of what the engine holds. It takes no more requests."""
        with self._lock:
            self._is_closed = True
            runs = list(self._runs.values())
        for run in runs:
            run.interrupt()

    async def aclose(self) -> None:
        """The same, for coroutines."""
        self.close()

    def __repr__(self) -> str:
        told = ", ".join(f"{key}={value!r}" for key, value in self.describe().items())
        return f"<{type(self).__name__} {told}>"

    def _work_begins(self, request: Request) -> None:
        """For engines that let requests wait: its turn has come, and its time in the queue ends."""
        with self._lock:
            run = self._runs.get(request.id)
        if run is not None:
            run.timing.started()

    def _enter(self, run: EngineRun) -> None:
        request_id = run.request.id
        with self._lock:
            if self._is_closed:
                raise Unavailable(f"the engine `{self.name}` is closed", code="engine.closed")
            if request_id in self._runs:
                raise InvalidInput(
                    f"a request with the id {request_id!r} is running",
                    hint="omit `request_id`, and every request gets its own",
                    code="engine.request-running",
                )
            self._runs[request_id] = run

    def _leave(self, run: EngineRun) -> None:
        with self._lock:
            if self._runs.get(run.request.id) is run:
                del self._runs[run.request.id]
