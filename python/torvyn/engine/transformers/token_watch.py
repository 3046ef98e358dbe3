"""Callbacks for `generate` of the library `transformers`: token ids, and when to stop."""

from __future__ import annotations

from typing import Any

from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.engine.thread_stream import Put
from torvyn.engine.transformers.model import Model


class Watch:
    """The streamer of one call. Each row is a choice; a row that has ended gets padding."""

    def __init__(self, request: Request, model: Model, put: Put[Step]) -> None:
        self.open = set(range(request.n))
        """The choices that have not ended."""
        self.tokens = 0
        self._request = request
        self._model = model
        self._put = put
        self._is_read = True
        self._has_begun = False
        self._scores: Any = None

    def put(self, ids: Any) -> None:
        """The library passes the prompt first, then one id per row."""
        if not self._has_begun:
            self._has_begun = True
            return
        parts = [self._part(at, id) for at, id in enumerate(ids.tolist()) if at in self.open]
        self._is_read = self._put(Step(parts)) and self._is_read

    def end(self) -> None:
        """The call is over."""

    def see(self, input_ids: Any, scores: Any) -> Any:
        """Keeps the scores of the model, before a token is sampled."""
        self._scores = scores
        return scores

    def is_enough(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """The library calls it after every token: whether each row is over."""
        import torch

        is_over = not self._is_read or not self.open
        return torch.full((input_ids.shape[0],), is_over, device=input_ids.device)

    def _part(self, at: int, id: int) -> ChoiceStep:
        if id in self._model.ends:
            self.open.discard(at)
            return ChoiceStep(at, tokens=0, finish_reason="stop")
        self.tokens += 1
        logprobs = None
        if self._scores is not None:
            logprobs = (self._model.logprob(self._scores[at], id, self._request.top_logprobs),)
        return ChoiceStep(at, [id], logprobs=logprobs)
