"""Sets up the library's continuous batching for one model: memory, sampler, and a first token.

By default the library sizes its cache by the memory of the device: for a small model that takes
most of the memory and half a minute. So the size is computed here if the context is known.
"""

from __future__ import annotations

import copy
import logging
import math
import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.packages import import_package
from torvyn.engine.transformers.model import Model

if TYPE_CHECKING:
    from torvyn.engine.transformers.result_router import ResultRouter
    from torvyn.engine.transformers.sampler import Scores

_BLOCK_TOKENS: Final = 256
"""The block size that flash attention needs."""
_PROBE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """`None` leaves the decision to the device and the library."""

    max_batch: int = 64
    cache_memory: float | None = None
    cuda_graphs: bool | None = None


def blocks_of(model: Model, options: BatchOptions) -> int | None:
    """The cache blocks for a full batch of full contexts; None if the context is unlimited."""
    if model.context is None:
        return None
    return options.max_batch * math.ceil(model.context / _BLOCK_TOKENS)


def batch_config(model: Model, options: BatchOptions, blocks: int | None) -> Any:
    """The library's settings; without `blocks`, it sizes the cache by the free memory."""
    from transformers import ContinuousBatchingConfig

    is_cpu = model.model.device.type == "cpu"
    return ContinuousBatchingConfig(
        block_size=_BLOCK_TOKENS,
        num_blocks=blocks,
        max_batch_tokens=512 if is_cpu else 2048,
        max_memory_percent=options.cache_memory or (0.25 if is_cpu else 0.8),
        max_requests_per_batch=options.max_batch,
        use_cuda_graph=options.cuda_graphs,
    )


@dataclass(slots=True)
class Prepared:
    """A manager that has not started, with the engine's router and sampler installed."""

    manager: Any
    router: ResultRouter
    scores: Scores
    is_static: bool
    """Whether it replays recorded graphs."""


def prepare(model: Model, options: BatchOptions) -> Prepared:
    if model.model.device.type == "cpu":
        _require_psutil()
    _forward_logs()
    attention = model.model.config._attn_implementation
    preferred = blocks_of(model, options)
    for blocks in (preferred, None) if preferred else (None,):
        try:
            return _prepare(model, options, blocks)
        except Exception as error:
            model.model.set_attn_implementation(attention)
            if blocks is None or not isinstance(error, (MemoryError, ValueError)):
                raise
    raise AssertionError("the last attempt returns or raises")


def _prepare(model: Model, options: BatchOptions, blocks: int | None) -> Prepared:
    from torvyn.engine.transformers.result_router import ResultRouter
    from torvyn.engine.transformers.sampler import Scores, install

    _disable_cudnn_attention()
    manager = model.model.init_continuous_batching(
        generation_config=_generation_config(model),
        continuous_batching_config=batch_config(model, options, blocks),
    )
    is_static = any(manager.continuous_batching_config.cuda_graph_booleans)
    prepared = Prepared(manager, ResultRouter(), Scores(), is_static)
    install(manager, prepared.scores, is_static)
    manager.output_router = prepared.router
    manager.warmup()
    return prepared


def _generation_config(model: Model) -> Any:
    """The model's own config, without the options that the sampler applies per request."""
    config = copy.deepcopy(model.model.generation_config)
    config.update(do_sample=False, num_return_sequences=1)
    config.eos_token_id = [*model.ends] or -1
    return config


def _disable_cudnn_attention() -> None:
    """Turns off cuDNN's attention, which torch prefers on some GPUs.

    It makes a plan for every combination of lengths it meets, which takes 3 ms per layer, and the
    lengths of a batch change with every token: a step of a model of a billion parameters took
    90 ms instead of 25 on an H200.
    """
    import torch

    if torch.cuda.is_available():
        torch.backends.cuda.enable_cudnn_sdp(False)


def _require_psutil() -> None:
    needed_by = "the engine `transformers`, on a machine without a GPU,"
    import_package("psutil", needed_by, "transformers", "engine.package-missing")


def _forward_logs() -> None:
    """Removes the handler that prints the library's log to standard error; the log propagates."""
    library = logging.getLogger("ContinuousBatchingLogger")
    library.handlers.clear()
    library.propagate = True


def probe(prepared: Prepared) -> None:
    """Generates one token: some models fail only in their first pass."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    prepared.router.receive = lambda batch: results.put(batch[0])
    prepared.manager.add_request([0], request_id="probe", max_new_tokens=1, eos_token_id=-1)
    try:
        error = results.get(timeout=_PROBE_S).error
    except queue.Empty:
        error = f"the model generated no token within {_PROBE_S:g} s"
    if error is not None:
        raise RuntimeError(error)
