"""What `generate` of the library `transformers` calls: ids as they come, and whether to go on."""

from __future__ import annotations

from typing import Any

from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.engine.thread_stream import Put
from torvyn.engine.transformers.model import Model


class Watch:
    """The streamer of one call. Rows are choices; a row that has ended gets padding."""

    def __init__(self, request: Request, model: Model, put: Put[Step]) -> None:
        self.open = set(range(request.n))
        """The choices that have not ended."""
        self.tokens = 0
        self._request = request
        self._model = model
        self._put = put
        self._is_wanted = True
        self._has_begun = False
        self._scores: Any = None

    def put(self, ids: Any) -> None:
        """The prompt first, then one id a row."""
        if not self._has_begun:
            self._has_begun = True
            return
        parts = [self._part(at, id) for at, id in enumerate(ids.tolist()) if at in self.open]
        self._is_wanted = self._put(Step(parts)) and self._is_wanted

    def end(self) -> None:
        """The call is over."""

    def see(self, input_ids: Any, scores: Any) -> Any:
        """Between the model and the dice."""
        self._scores = scores
        return scores

    def is_enough(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Asked after every token, for each row."""
        import torch

        is_over = not self._is_wanted or not self.open
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
