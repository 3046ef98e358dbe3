"""`transformers`: any causal language model of that library, inside this process.

A thread generates and hands over token ids; text is made of them here, exactly, from the
tokenizer's own table. Requests take turns: torch's dice belong to the whole process. An abort is
heard between two tokens, not while a prompt is read.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, ClassVar

from torvyn.engine.engine import Engine
from torvyn.engine.from_thread import FromThread, Put
from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.engine.transformers_model import Model, Prompt
from torvyn.engine.transformers_watch import Watch
from torvyn.errors import InvalidInput
from torvyn.protocol.frames import Usage
from torvyn.text import Vocabulary

_turn = threading.Lock()
_LOOK_S = 0.05


class Transformers(Engine):
    """`model` is a folder, a name of the hub, or a model that is there, with its `tokenizer`."""

    name: ClassVar[str] = "transformers"

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        device: str | None = None,
        dtype: str = "auto",
        offline: bool = False,
    ) -> None:
        """With `offline` nothing is fetched: the model is in a folder or was fetched before."""
        super().__init__()
        if isinstance(model, (str, os.PathLike)):
            self._model = Model.load(os.fspath(model), tokenizer, dtype, offline)
        else:
            self._model = Model(model, tokenizer)
        if device is not None:
            self._model.to(device)
        self._streams: set[FromThread[Step]] = set()

    @property
    def vocabulary(self) -> Vocabulary:
        return self._model.vocabulary

    def describe(self) -> Mapping[str, Any]:
        model = self._model
        return {"engine": self.name, "model": model.name, "context": model.context}

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        if request.response_format is not None:
            raise InvalidInput(
                "the engine `transformers` knows no `response_format`",
                code="engine.request-invalid",
            )
        prompt = self._model.prompt(request)
        yield Step((), Usage(prompt_tokens=prompt.tokens))
        stream: FromThread[Step] = FromThread(partial(self._generate, request, prompt))
        self._streams.add(stream)
        try:
            async with contextlib.aclosing(stream.batches()) as batches:
                async for steps in batches:
                    for step in steps:
                        yield step
        finally:
            self._streams.discard(stream)

    def close(self) -> None:
        super().close()
        for stream in list(self._streams):
            stream.stop()

    def _generate(self, request: Request, prompt: Prompt, put: Put[Step]) -> None:
        """On a thread: waits for its turn, generates, tells how each choice ended."""
        while not _turn.acquire(timeout=_LOOK_S):
            if not put(Step(())):
                return
        try:
            self._work_begins(request)
            watch = Watch(request, self._model, put)
            with _dice(request.seed):
                self._model.generate(request, prompt, watch)
            ended = [ChoiceStep(at, tokens=0, finish_reason="length") for at in watch.open]
            put(Step(ended, Usage(prompt.tokens, watch.tokens)))
        finally:
            _turn.release()


@contextlib.contextmanager
def _dice(seed: int | None) -> Any:
    """The seed for this answer alone: the process's own dice are put back."""
    import torch

    if seed is None:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        yield
