"""`transformers`: any causal language model of that library, inside this process.

Requests share the model through the library's continuous batching. Token ids become text here, with
the tokenizer's own vocabulary. A model that cannot be batched answers one request at a time, on a
thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any, ClassVar

from torvyn.engine.engine import Engine
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.engine.thread_stream import Put, ThreadStream
from torvyn.engine.transformers.batch import Batch
from torvyn.engine.transformers.batch_setup import BatchOptions
from torvyn.engine.transformers.model import Model, TokenizedPrompt
from torvyn.engine.transformers.token_watch import Watch
from torvyn.errors import InvalidInput, TorvynError
from torvyn.protocol.frames import Usage
from torvyn.text import Vocabulary

logger = logging.getLogger("torvyn.engine")

_turn = threading.Lock()
"""Locked by the request that generates without a batch: torch has one generator per process."""
_CHECK_S = 0.05


class Transformers(Engine):
    """`model` is a folder, a name on the hub, or a loaded model with its `tokenizer`.

    Do not use a loaded model while the engine is open: batching changes its attention.
    """

    name: ClassVar[str] = "transformers"

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        device: str | None = None,
        dtype: str = "auto",
        offline: bool = False,
        batching: bool | None = None,
        max_batch: int = 64,
        cache_memory: float | None = None,
        cuda_graphs: bool | None = None,
    ) -> None:
        """With `offline`, nothing is downloaded: the model must be a folder or in the hub's cache.

        By default, `batching` is on if the model supports it; True raises an error if it does not.
        """
        super().__init__()
        if isinstance(model, (str, os.PathLike)):
            self._model = Model.load(os.fspath(model), tokenizer, dtype, offline)
        else:
            self._model = Model(model, tokenizer)
        if device is not None:
            self._model.to(device)
        self._streams: set[ThreadStream[Step]] = set()
        options = BatchOptions(max_batch, cache_memory, cuda_graphs)
        self._batch = None if batching is False else self._open_batch(options, bool(batching))

    @property
    def vocabulary(self) -> Vocabulary:
        return self._model.vocabulary

    def describe(self) -> Mapping[str, Any]:
        return {
            "engine": self.name,
            "model": self._model.name,
            "context": self._model.context,
            "batching": self._batch is not None,
        }

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        if request.response_format is not None:
            raise InvalidInput(
                "the engine `transformers` does not support `response_format`",
                code="engine.request-invalid",
            )
        prompt = self._model.prompt(request)
        yield Step((), Usage(prompt_tokens=prompt.tokens))
        steps = self._alone(request, prompt)
        if self._batch is not None:
            steps = self._batch.stream(request, prompt, partial(self._work_begins, request))
        async with contextlib.aclosing(steps):
            async for step in steps:
                yield step

    def close(self) -> None:
        super().close()
        if self._batch is not None:
            self._batch.close()
        for stream in list(self._streams):
            stream.stop()

    def _open_batch(self, options: BatchOptions, is_required: bool) -> Batch | None:
        try:
            return Batch(self._model, options)
        except TorvynError:
            raise
        except Exception as error:
            if is_required:
                raise InvalidInput(
                    f"the model `{self._model.name}` does not support batching: {error}",
                    hint="raise `cache_memory`, or open the engine with `batching = false`",
                    code="engine.model-unusable",
                ) from error
            logger.warning(
                "batching of `%s` failed, so requests are answered one at a time: %s",
                self._model.name,
                error,
            )
            return None

    async def _alone(self, request: Request, prompt: TokenizedPrompt) -> AsyncGenerator[Step, None]:
        stream: ThreadStream[Step] = ThreadStream(partial(self._generate, request, prompt))
        self._streams.add(stream)
        try:
            async with contextlib.aclosing(stream.batches()) as batches:
                async for steps in batches:
                    for step in steps:
                        yield step
        finally:
            self._streams.discard(stream)

    def _generate(self, request: Request, prompt: TokenizedPrompt, put: Put[Step]) -> None:
        """On a thread: waits for its turn, generates, and reports how each choice ended."""
        while not _turn.acquire(timeout=_CHECK_S):
            if not put(Step(())):
                return
        try:
            self._work_begins(request)
            watch = Watch(request, self._model, put)
            with _own_seed(request.seed):
                self._model.generate(request, prompt, watch)
            ended = [ChoiceStep(at, tokens=0, finish_reason="length") for at in watch.open]
            put(Step(ended, Usage(prompt.tokens, watch.tokens)))
        finally:
            _turn.release()


@contextlib.contextmanager
def _own_seed(seed: int | None) -> Any:
    """Seeds torch for this answer only; the state of its generator is restored."""
    import torch

    if seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        yield
