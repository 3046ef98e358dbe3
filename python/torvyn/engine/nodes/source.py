"""An engine as the source of a flow: `component = "engine:NAME"`, or `engine.source(...)`.

It emits the text of an answer with the attributes `choice`, `kind`, `token_ids` and `logprobs`, and
ends with the finish reason, the usage and the matched stop string. A slow flow slows the engine; a
cancelled flow aborts the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar

from torvyn._contract.element import Output
from torvyn._contract.roles import AnswerNode, Source
from torvyn._contract.signals import PENDING, End, Pending
from torvyn._io.background_loop import SyncReader, background_loop
from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec
from torvyn.engine.answer.replay import Rest, generation_lost
from torvyn.engine.delta import Delta, as_delta
from torvyn.engine.engine import Engine
from torvyn.engine.generation import Generation
from torvyn.engine.nodes.answer_state import AnswerState
from torvyn.engine.prompt.prompt_file import read_input
from torvyn.engine.registry import open as open_engine
from torvyn.engine.request import CUT_CHARACTERS, Request

REQUEST_OPTIONS = (
    Option("prompt", "text", None, "The prompt. Without it and `messages`, `path` is read."),
    Option("messages", "list", None, "A conversation: tables with `role` and `content`."),
    Option("path", "text", None, "A file with the prompt. By default, standard input."),
    Option("max_tokens", "integer", None, "The most tokens to generate.", minimum=0),
    Option("temperature", "number", None, "The randomness, from 0 to 2.", minimum=0),
    Option("top_p", "number", None, "The share of likely tokens to choose from.", minimum=0),
    Option("seed", "integer", None, "The seed. The same seed gives the same random choices."),
    Option("stop", "texts", (), "Stop strings: the answer ends before them."),
    Option("include_stop", "boolean", False, "Whether the answer includes the stop string."),
    Option(
        "cut_character",
        "choice",
        None,
        "What becomes of a character that the end of the answer cuts: it is dropped, or replaced "
        'by U+FFFD. By default `[serve] cut_character`, else "drop".',
        choices=CUT_CHARACTERS,
    ),
    Option(
        "n", "integer", 1, "The number of answers. The attribute `choice` numbers them.", minimum=1
    ),
    Option("logprobs", "boolean", False, "Whether to return log probabilities."),
    Option("top_logprobs", "integer", 0, "The number of alternatives per token.", minimum=0),
    Option("user", "text", None, "The user, for the accounting of the engine."),
)
_REQUEST_NAMES = frozenset(option.name for option in REQUEST_OPTIONS) - {
    "prompt",
    "messages",
    "path",
}


def spec_of(
    name: str,
    summary: str,
    options: tuple[Option, ...],
    example: str,
    prompt: str | None = None,
    other_names: Mapping[str, str] | None = None,
) -> Spec:
    """The spec of an engine's source: the engine's own options, then those of requests."""
    shared = (replace(REQUEST_OPTIONS[0], default=prompt), *REQUEST_OPTIONS[1:])
    names = other_names or {}
    return Spec(f"engine:{name}", "source", summary, (*options, *shared), example, "prompt", names)


class EngineSource(Source, AnswerNode):
    """The source over an engine. Subclasses open one from a config.

    The engine runs on the loop that drives the flow, or on the background loop.
    """

    spec: ClassVar[Spec]
    unit = "tokens"

    def __init__(self, engine: Engine | None = None, request: Request | None = None) -> None:
        super().__init__()
        self._engine = engine
        self._is_ours = engine is None
        self._request = request
        self._reader: SyncReader[Output | End] | None = None
        self._state = AnswerState()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that drives the flow; None if a thread drives it."""

    def init(self, config: str) -> _Driver:
        if self._is_ours:
            options = self.options(config)
            self._request = self._make_request(options)
            self._engine = self.open_engine(options)
        return _Driver(self)

    def options(self, config: str) -> dict[str, Any]:
        """The options of the config, validated."""
        return parse_config(self.spec, config)

    def defaults(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that apply to every request: all but the prompt."""
        names = (*_REQUEST_NAMES, "messages")
        return {name: options[name] for name in names if options[name] is not None}

    def open_engine(self, options: Mapping[str, Any]) -> Engine:
        name = self.spec.name.partition(":")[2]
        shared = {option.name for option in REQUEST_OPTIONS}
        names = [option.name for option in self.spec.options if option.name not in shared]
        return open_engine(name, **{key: options[key] for key in names if options[key] is not None})

    def pull(self) -> Output | End | Pending | None:
        if self._state.earlier_end is not None:
            return self._state.earlier_end
        output = (self._reader or self._start()).poll(PENDING)
        if self.is_saved and type(output) is Output:
            self._state.take()
        return output

    def snapshot(self) -> dict[str, Any]:
        if not self.is_saved:
            # Asked by a swap: the new component would begin a second answer.
            raise generation_lost("its flow does not save it", "set `checkpoint` on the flow")
        return self._state.save()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._state.restore(state)

    def teardown(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._is_ours and self._engine is not None:
            self._engine.close()

    def _start(self) -> SyncReader[Output | End]:
        assert self._engine is not None
        assert self._request is not None
        loop = self.loop or background_loop()
        rest = self._state.begin(self._engine, self._request)
        generation = self._engine.generate(self._request)
        stream = outputs(generation, self._state if self.is_saved else None, rest)
        self._reader = SyncReader(stream, loop, generation.close, self.wake)
        return self._reader

    def _make_request(self, options: Mapping[str, Any]) -> Request:
        shared = {name: options[name] for name in _REQUEST_NAMES if options[name] is not None}
        return Request.make(read_input(self.spec, options), **shared)


class _Driver:
    """The result of `init`. Only a loop that drives the flow awaits it, and so the source learns
    that loop; a loop that a `for` loop blocks would never run the engine."""

    def __init__(self, source: EngineSource) -> None:
        self._source = source

    def __await__(self) -> Generator[None, None, None]:
        self._source.loop = asyncio.get_running_loop()
        return
        yield


async def outputs(
    generation: Generation, state: AnswerState | None, rest: Rest | None
) -> AsyncGenerator[Output | End, None]:
    """Deltas as elements, then the end. With `rest`, only what is new."""
    finish, matched_stop = "stop", None
    # Most elements have no attributes of their own; those of a choice share theirs.
    choices = range(generation.request.n)
    shared: list[Mapping[str, Any]] = [{"choice": at, "kind": "text"} for at in choices]
    made = aiter(generation) if rest is None else _new_deltas(generation, rest)
    async with contextlib.aclosing(made) as deltas:
        async for delta in deltas:
            if delta.finish_reason is not None and delta.index == 0:
                finish, matched_stop = delta.finish_reason, delta.matched_stop
            if state is not None and (delta.call is not None or delta.text):
                state.add(delta)
            if delta.call is not None:
                data = json.dumps(asdict(delta.call), ensure_ascii=False)
                yield Output(data, content_type="application/json", attributes=_attributes(delta))
            elif delta.text:
                is_plain = delta.kind == "text" and not delta.token_ids and delta.logprobs is None
                attributes = shared[delta.index] if is_plain else _attributes(delta)
                yield Output(delta.text, attributes=attributes)
    usage = generation.usage
    counts = {**asdict(usage), "total_tokens": usage.total_tokens}
    end = End(finish, counts, matched_stop, side=generation.filtered_side)
    if state is not None:
        state.add_end(end)
    yield end


async def _new_deltas(generation: Generation, rest: Rest) -> AsyncGenerator[Delta, None]:
    async with contextlib.aclosing(aiter(generation)) as deltas:
        async for delta in deltas:
            new = rest.of(delta)
            rest.check()
            if new is not None:
                yield as_delta(new)
    rest.check_end()


def _attributes(delta: Delta) -> dict[str, Any]:
    attributes: dict[str, Any] = {"choice": delta.index, "kind": delta.kind}
    if delta.token_ids:
        attributes["token_ids"] = delta.token_ids
    if delta.logprobs is not None:
        attributes["logprobs"] = delta.logprobs
    return attributes
