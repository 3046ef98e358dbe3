"""An engine as a processor: its input is the texts of a request, its output is the answer.

The engine starts when its input has ended, so every guard before it has seen the whole prompt. If a
guard blocks the prompt, the engine is not called.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Emissions, RequestProcessor
from torvyn._contract.signals import End
from torvyn.components.config import wrong_config
from torvyn.components.spec import Spec
from torvyn.engine.engine import Engine
from torvyn.engine.generation import Generation
from torvyn.engine.nodes.answer_state import AnswerState
from torvyn.engine.nodes.source import EngineSource, outputs
from torvyn.engine.prompt.prompt import Prompt
from torvyn.engine.request import Request, options_of

NO_USAGE: Mapping[str, int] = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
    "total_tokens": 0,
}
"""The usage if the engine was not called."""


class EngineProcessor(RequestProcessor):
    """The processor over an engine. `source_type` opens an engine from a config."""

    source_type: ClassVar[type[EngineSource]] = EngineSource
    spec: ClassVar[Spec]
    unit = "tokens"
    run = "async"
    input_end: End | None = None
    """How the input ended; the reactor sets it."""

    def __init__(
        self, engine: Engine | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._engine = engine
        self._is_ours = engine is None
        self._defaults = dict(options or {})
        self._generation: Generation | None = None
        self._is_drained = False
        self._state = AnswerState()
        self._can_continue = False
        self._taken = 0

    def __init_subclass__(cls) -> None:
        cls.spec = cls.source_type.spec

    def init(self, config: str) -> None:
        if self._is_ours:
            source = self.source_type()
            options = source.options(config)
            self._defaults = source.defaults(options)
            self._engine = source.open_engine(options)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raises for a prompt that would never be used."""
        for name in ("prompt", "messages", "path"):
            option = cls.spec.option(name)
            if option is not None and options[name] != option.default:
                message = f"the node has an input, so its own `{name}` would never be used"
                raise wrong_config(cls.spec, message, f"`{name}` belongs to the node `request`")

    def process(self, element: Element) -> Emissions:
        raise NotImplementedError("an engine reads its whole input: see `stream_function`")

    async def stream_function(
        self, elements: AsyncIterator[Element]
    ) -> AsyncIterator[Output | End]:
        prompt = self._prompt()
        async for element in elements:
            prompt.add(element)
        request = prompt.request() if self._is_whole() else None
        if self._state.earlier_end is not None:
            yield self._state.earlier_end
            return
        if request is None:
            yield self._blocked()
            return
        assert self._engine is not None
        self._can_continue = self._engine.can_repeat(request)
        rest = self._state.begin(self._engine, request)
        self._generation = generation = self._engine.generate(request)
        if self._is_drained:
            generation.stop()
        state = self._state if self.is_saved else None
        async with contextlib.aclosing(outputs(generation, state, rest)) as stream:
            async for output in stream:
                yield output

    def snapshot(self) -> dict[str, Any]:
        taken, self._taken = self.emitted - self._taken, self.emitted
        self._state.take(taken)
        return self._state.save()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._state.restore(state)

    def drain(self) -> None:
        if self.is_saved and self._can_continue:
            return  # the next run continues the answer
        self._is_drained = True
        if self._generation is not None:
            self._generation.stop()

    def teardown(self) -> None:
        if self._is_ours and self._engine is not None:
            self._engine.close()

    def _prompt(self) -> Prompt:
        # Link rejects an engine whose input is not a request.
        source = self.request_source
        assert source is not None
        request: Request = source.request
        options = self._defaults | options_of(request)
        content = request.messages if request.prompt is None else request.prompt
        return Prompt(Request.make(content, **options), getattr(source, "roles", None))

    def _is_whole(self) -> bool:
        return self.input_end is None or self.input_end.finish_reason == "stop"

    def _blocked(self) -> End:
        end = self.input_end
        if end is not None and end.finish_reason not in ("stop", "content_filter"):
            return end
        reason = "a guard removed all text of the prompt"
        if end is not None and end.reason is not None:
            reason = end.reason
        return End("content_filter", NO_USAGE, reason=reason, side="prompt")
