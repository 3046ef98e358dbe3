"""How the `transformers` engine picks the next token of every request in a shared batch.

The library takes the highest score of each row. These logits processors give every request its own
temperature, `top_k`, `top_p` and seed: they add Gumbel noise, and the highest sum of score and
noise is a sample. The noise depends on the seed, the position and the token alone, so that a seeded
answer is the same whatever else is in the batch. Torch's own generator is not used.

This module imports torch and transformers: import it only when an engine starts.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
)

GREEDY: Final = 0
"""The key of a row without noise."""
_INT32: Final = 2**32


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling options of one request; the library passes them along with the request."""

    temperature: float = 0.0
    """Zero takes the likeliest token."""
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    keeps_scores: bool = False
    """Whether the model's scores are kept, for the log probabilities of its tokens."""

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    def key(self, position: int) -> int:
        """The key of the noise for the token after `position`: a signed 32-bit number."""
        if self.is_greedy:
            return GREEDY
        digest = hashlib.blake2b(f"{self.seed}:{position}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little", signed=True) or 1


class Scores:
    """The scores of tokens that were not read yet, for requests with `logprobs`."""

    def __init__(self) -> None:
        self._rows: dict[str, deque[Any]] = {}

    def add(self, request_id: str) -> None:
        self._rows[request_id] = deque()

    def keep(self, request_id: str, row: Any) -> None:
        rows = self._rows.get(request_id)
        if rows is not None:  # the request may have been cancelled since its batch was prepared
            rows.append(row)

    def take(self, request_id: str) -> Any:
        """The scores of the oldest token not taken yet."""
        return self._rows[request_id].popleft()

    def forget(self, request_id: str) -> None:
        self._rows.pop(request_id, None)


class _PerRequest(ContinuousBatchingLogitsProcessor):  # type: ignore[misc]
    """A processor with one number per request, and a default for rows that are padding.

    `is_static` says that the library replays a recorded graph: then every operation has to be in
    the graph, whether a request of the batch needs it or not.
    """

    supported_kwargs: Mapping[str, type] = {"sampling": Sampling}
    ignored_kwargs: tuple[str, ...] = ()
    dtype = torch.float32
    default: float = 0

    def __init__(self, is_static: bool) -> None:
        self._is_static = is_static
        self._is_needed = is_static

    def value(self, sampling: Sampling, position: int) -> float:
        raise NotImplementedError

    def fill_defaults(self, int32_tensor: Any) -> None:
        filled = torch.full_like(int32_tensor, self.default, dtype=self.dtype)
        int32_tensor.copy_(filled.view(dtype=torch.int32))

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Any:
        values = [
            self.value(_sampling(request), request.state.position_offset)
            for request in requests_with_new_token
        ]
        self._is_needed = self._is_static or any(value != self.default for value in values)
        return torch.tensor(values, dtype=self.dtype).view(dtype=torch.int32)

    def __call__(self, scores: Any, tensor_arg: Any) -> Any:
        if not self._is_needed:
            return scores
        return self.apply(scores, tensor_arg[: scores.size(0)].view(dtype=self.dtype))

    def apply(self, scores: Any, values: Any) -> Any:
        raise NotImplementedError


class KeepScores(_PerRequest):
    """Keeps the model's own scores, before anything changes them."""

    def __init__(self, is_static: bool, scores: Scores) -> None:
        # Requests with `logprobs` are rejected while graphs are replayed.
        super().__init__(is_static=False)
        self._scores = scores
        self._kept_rows: list[tuple[int, str]] = []

    def value(self, sampling: Sampling, position: int) -> float:
        return float(sampling.keeps_scores)

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Any:
        self._kept_rows = [
            (row, request.state.request_id)
            for row, request in enumerate(requests_with_new_token)
            if _sampling(request).keeps_scores
        ]
        return super().prepare_tensor_args(requests_with_new_token)

    def apply(self, scores: Any, values: Any) -> Any:
        for row, request_id in self._kept_rows:
            self._scores.keep(request_id, scores[row].clone())
        return scores


class Temperature(_PerRequest):
    default = 1.0

    def value(self, sampling: Sampling, position: int) -> float:
        return sampling.temperature or 1.0

    def apply(self, scores: Any, values: Any) -> Any:
        return scores / values.unsqueeze(-1)


class TopK(_PerRequest):
    """Leaves the `top_k` likeliest tokens of a row; zero leaves all of them."""

    dtype = torch.int32

    def value(self, sampling: Sampling, position: int) -> float:
        return 0 if sampling.is_greedy else sampling.top_k

    def apply(self, scores: Any, values: Any) -> Any:
        size = scores.size(-1)
        last = torch.where(values == 0, size, values.clamp(max=size)).long() - 1
        ordered = torch.sort(scores, dim=-1, descending=True).values
        return scores.masked_fill(scores < ordered.gather(-1, last.unsqueeze(-1)), -torch.inf)


class TopP(_PerRequest):
    """Leaves the likeliest tokens whose probabilities together reach `top_p`."""

    default = 1.0

    def value(self, sampling: Sampling, position: int) -> float:
        return 1.0 if sampling.is_greedy else sampling.top_p

    def apply(self, scores: Any, values: Any) -> Any:
        ordered, places = torch.sort(scores, dim=-1)
        # From the least likely: tokens are left out while they sum up to no more than the rest.
        is_out = ordered.softmax(dim=-1).cumsum(dim=-1) <= (1 - values).unsqueeze(-1)
        is_out[..., -1] = False
        return scores.masked_fill(is_out.scatter(-1, places, is_out), -torch.inf)


class Noise(_PerRequest):
    """Turns the likeliest token into a sample, for rows that are not greedy."""

    dtype = torch.int32
    default = GREEDY

    def value(self, sampling: Sampling, position: int) -> float:
        return sampling.key(position)

    def apply(self, scores: Any, values: Any) -> Any:
        keys = values.unsqueeze(-1)
        return torch.where(keys == GREEDY, scores, scores + _gumbel(keys, scores.size(-1)))


def _gumbel(keys: Any, size: int) -> Any:
    """Gumbel noise per key and token.

    The bits come from an integer hash (multiply and shift), so that they are the same on every
    device; torch's own generators differ between devices and have no state per row.
    """
    bits = torch.arange(size, device=keys.device, dtype=torch.int32) * _signed(0x9E3779B1) + keys
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ _shifted(bits, shift)) * _signed(factor)
    bits = bits ^ _shifted(bits, 16)
    uniform = ((bits & 0x7FFFFF).float() + 0.5) / 2**23
    return -torch.log(-torch.log(uniform))


def _shifted(bits: Any, shift: int) -> Any:
    """A logical shift: torch's own copies the sign."""
    return (bits >> shift) & ((1 << (32 - shift)) - 1)


def _signed(number: int) -> int:
    return number - _INT32 if number >= _INT32 // 2 else number


_DEFAULT: Final = Sampling()


def _sampling(request: Any) -> Sampling:
    # The requests with which the library warms up have no options.
    sampling = request.state.logit_processor_kwargs.get("sampling", _DEFAULT)
    assert isinstance(sampling, Sampling)
    return sampling


def install(manager: Any, scores: Scores, is_static: bool) -> None:
    """Adds the processors to a manager that has not started."""
    processors = manager.logit_processor
    options = (Temperature, TopK, TopP, Noise)
    added = [KeepScores(is_static, scores), *(processor(is_static) for processor in options)]
    # The model's own processors come between its scores and a request's options.
    processors.logits_processor[:] = [added[0], *processors.logits_processor, *added[1:]]
    processors.tensors_required += len(added)
    processors.supported_keys["sampling"] = Sampling
    processors.do_processing = True
