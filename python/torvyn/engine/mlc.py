"""`mlc`: an adapter for `MLCEngine` and `AsyncMLCEngine` of the package `mlc_llm`.

Their output is OpenAI chunks as objects, which are decoded like chunks from a wire. The adapter
follows MLC's documented interface and is tested against a fake of it, not against MLC itself.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from torvyn.engine.engine import Engine
from torvyn.engine.openai.failures import Upstream
from torvyn.engine.openai.request_body import Api, Shape, body_of
from torvyn.engine.openai.steps import Steps
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.engine.thread_stream import Put, ThreadStream
from torvyn.errors import Internal, InvalidInput, MissingError
from torvyn.protocol.openai.chunk_decoder import ChunkReader

_MLC: Final = Upstream("MLC")


class MLC(Engine):
    """Opens `model`, or uses an open MLC `engine`, which stays open when this one is closed.

    Messages go to the chat API; prompts too, unless `api` is `completions`.
    """

    name: ClassVar[str] = "mlc"
    limits_tokens: ClassVar[bool] = True

    def __init__(
        self, model: str | None = None, *, engine: Any = None, api: Api = "chat", **options: Any
    ) -> None:
        super().__init__()
        if (model is None) == (engine is None):
            raise InvalidInput(
                "mlc: pass either `model` or an open `engine`",
                code="engine.bad-option",
            )
        self._is_ours = engine is None
        self._engine = engine if engine is not None else _open_engine(model, options)
        self._shape = Shape(model or "", api)

    def describe(self) -> Mapping[str, Any]:
        kind = type(self._engine).__name__
        return {"engine": self.name, "model": self._shape.model, "class": kind}

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        reader, state = ChunkReader(request.n), Steps(request.n, _MLC)
        async with aclosing(self._chunks(request)) as chunks:
            async for chunk in chunks:
                step = state.step(reader.chunk(_json(chunk)))
                if step is not None:
                    yield step
                if state.failure is not None:
                    raise state.failure
        state.end()

    def close(self) -> None:
        super().close()
        if self._is_ours:
            self._engine.terminate()

    async def _chunks(self, request: Request) -> AsyncGenerator[Any, None]:
        is_chat = self._shape.api == "chat" and not request.raw_prompt
        body = body_of(request, replace(self._shape, api="chat" if is_chat else "completions"))
        body["model"] = self._shape.model or None
        body["request_id"] = request.id
        api = self._engine.chat.completions if is_chat else self._engine.completions
        if not inspect.iscoroutinefunction(api.create):
            abort = partial(self._engine.abort, request.id)
            stream = ThreadStream(partial(_read, api.create, body), on_leave=abort)
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    for chunk in batch:
                        yield chunk
            return
        is_done = False
        try:
            async for chunk in await api.create(**body):
                yield chunk
            is_done = True
        finally:
            if not is_done:
                await _await_result(self._engine.abort(request.id))


def _read(create: Callable[..., Any], body: Mapping[str, Any], put: Put[Any]) -> None:
    """On a thread: all chunks, until the reader has left."""
    chunks = create(**body)
    try:
        for chunk in chunks:
            if not put(chunk):
                break
    finally:
        if hasattr(chunks, "close"):
            chunks.close()


async def _await_result(value: Any) -> None:
    if inspect.isawaitable(value):
        await value


def _json(chunk: Any) -> str:
    """A chunk as JSON; MLC's own classes are pydantic models."""
    text: str = chunk.model_dump_json() if hasattr(chunk, "model_dump_json") else json.dumps(chunk)
    return text


def _open_engine(model: str | None, options: Mapping[str, Any]) -> Any:
    try:
        from mlc_llm import AsyncMLCEngine  # type: ignore[import-not-found]
    except ImportError:
        raise MissingError(
            "engine.package-missing",
            "the engine `mlc` needs the package `mlc_llm`",
            hint="see MLC's documentation for the wheel for your hardware",
        ) from None
    try:
        return AsyncMLCEngine(model, **options)
    except Exception as error:
        raise Internal(
            f"mlc_llm cannot open `{model}`: {error}", code="engine.model-unusable"
        ) from error
