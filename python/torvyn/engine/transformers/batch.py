"""One model, many requests: the library's continuous batching behind async streams.

The library's thread computes the next token of every request in the batch at once; a request joins
as soon as it is submitted. After each step that thread wakes the event loops that wait for results.
A slow reader does not delay others: it gets all of its tokens together.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from torvyn.engine.request import Request
from torvyn.engine.step import ChoiceStep, Step
from torvyn.engine.transformers.batch_setup import BatchOptions, Prepared, prepare, probe
from torvyn.engine.transformers.model import Model, TokenizedPrompt
from torvyn.errors import InvalidInput, Unavailable
from torvyn.protocol.frames import Usage

logger = logging.getLogger("torvyn.engine")

_STOP_S: Final = 5.0


@dataclass(slots=True)
class _Sequence:
    """One choice of a request: its tokens so far, and how many were sent."""

    id: str
    index: int
    tokens: list[int] = field(default_factory=list)
    sent: int = 0
    is_over: bool = False
    error: str | None = None
    is_open: bool = True
    """Whether its end still has to be sent."""


class _Subscriber:
    """The event loop that waits for a request, and the request's sequences."""

    def __init__(self, sequences: list[_Sequence]) -> None:
        self.sequences = sequences
        self.loop = asyncio.get_running_loop()
        self.ready = asyncio.Event()
        self.is_woken = False
        self.is_closed = False

    def wake(self) -> None:
        # Cleared first: a result that arrives from here on schedules another call.
        self.is_woken = False
        self.ready.set()


class Batch:
    """Starts at once, and raises the library's error if the model cannot be batched."""

    def __init__(self, model: Model, options: BatchOptions) -> None:
        self._model = model
        self._options = options
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._start_lock = threading.Lock()
        self._subscribers: dict[str, tuple[_Subscriber, _Sequence]] = {}
        self._is_closed = False
        self._manager: Any = None
        self._start()

    @property
    def open_sequences(self) -> int:
        """Sequences in the batch, or waiting to join it."""
        return len(self._subscribers)

    async def stream(
        self, request: Request, prompt: TokenizedPrompt, begin: Callable[[], object]
    ) -> AsyncGenerator[Step, None]:
        """The request's tokens, all that are ready per step. `begin` ends its queue time."""
        self._check(request, prompt)
        if not self._manager.is_running():
            await asyncio.to_thread(self._start)
        has_begun = self.open_sequences + request.n <= self._options.max_batch
        if has_begun:
            begin()
        subscriber = self._submit(request, prompt)
        total = 0
        try:
            while any(sequence.is_open for sequence in subscriber.sequences):
                await subscriber.ready.wait()
                subscriber.ready.clear()
                if subscriber.is_closed:
                    return
                if not has_begun:
                    has_begun = True
                    begin()
                parts = [part for one in subscriber.sequences for part in self._parts(one, request)]
                total += sum(len(part.token_ids) for part in parts)
                yield Step(parts)
        finally:
            self._leave(subscriber)
        yield Step((), Usage(prompt.tokens, total))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            subscribers = [subscriber for subscriber, _ in self._subscribers.values()]
        for subscriber in subscribers:
            subscriber.is_closed = True
        self._wake(subscribers)
        self._manager.stop(block=True, timeout=_STOP_S, hard_stop=True)

    def _check(self, request: Request, prompt: TokenizedPrompt) -> None:
        if request.logprobs and self._is_static:
            raise InvalidInput(
                "log probabilities are not available while the engine uses CUDA graphs",
                hint="open the engine with `cuda_graphs = false`",
                code="engine.request-invalid",
            )
        if prompt.tokens >= self._capacity:
            raise InvalidInput(
                f"the prompt has {prompt.tokens} tokens, but the cache holds {self._capacity}",
                hint="shorten the prompt, or raise `cache_memory`",
                code="engine.context-full",
            )

    def _start(self) -> None:
        """Starts the library's thread, again if it has died."""
        with self._start_lock:
            if self._is_closed or (self._manager is not None and self._manager.is_running()):
                return
            prepared = prepare(self._model, self._options)
            started: Future[None] = Future()
            threading.Thread(
                target=self._run, args=(prepared, started), name="torvyn-batch", daemon=True
            ).start()
            started.result()
            self._scores, self._is_static = prepared.scores, prepared.is_static
            self._capacity = prepared.manager.batch_processor.cache.num_pages
            self._manager = prepared.manager

    def _run(self, prepared: Prepared, started: Future[None]) -> None:
        """On a thread of its own: starts the library's thread, and waits for its end."""
        manager = prepared.manager
        try:
            # The library's thread inherits the daemon flag, so it never keeps the process alive.
            manager.start()
            worker = manager._generation_thread
            probe(prepared)
        except BaseException as error:
            manager.stop(block=True, timeout=_STOP_S, hard_stop=True)
            started.set_exception(error)
            return
        prepared.router.receive = self._deliver
        started.set_result(None)
        worker.join()
        if not self._is_closed:
            fatal = manager.background_thread_status.fatal_error
            logger.error("the batch of `%s` has stopped: %s", self._model.name, fatal)
            self._fail_all(str(fatal))

    def _deliver(self, results: Iterable[Any]) -> None:
        """On the library's thread, after every step."""
        subscribers = []
        for result in results:
            entry = self._subscribers.get(result.request_id)
            if entry is None:  # it was cancelled
                continue
            subscriber, sequence = entry
            sequence.tokens = result.generated_tokens
            if result.is_finished():
                sequence.error = result.error
                sequence.is_over = True
            subscribers.append(subscriber)
        self._wake(subscribers)

    def _fail_all(self, error: str) -> None:
        with self._lock:
            entries = list(self._subscribers.values())
        for _, sequence in entries:
            if not sequence.is_over:
                sequence.error, sequence.is_over = error, True
        self._wake([subscriber for subscriber, _ in entries])

    def _wake(self, subscribers: Iterable[_Subscriber]) -> None:
        """Wakes each event loop once for all of its subscribers."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Subscriber]] = defaultdict(list)
        for subscriber in subscribers:
            if not subscriber.is_woken:
                subscriber.is_woken = True
                by_loop[subscriber.loop].append(subscriber)
        for loop, woken in by_loop.items():
            try:
                loop.call_soon_threadsafe(_wake_all, woken)
            except RuntimeError:  # the loop is closed, and its readers with it
                for subscriber in woken:
                    self._leave(subscriber)

    def _submit(self, request: Request, prompt: TokenizedPrompt) -> _Subscriber:
        from torvyn.engine.transformers.sampler import Sampling

        # Ids are never reused: the library would apply an earlier cancellation to the new request.
        number = next(self._numbers)
        subscriber = _Subscriber([_Sequence(f"{number}#{at}", at) for at in range(request.n)])
        rest = self._capacity - prompt.tokens
        longest = min(self._model.longest_answer(request, prompt) or rest, rest)
        for sequence in subscriber.sequences:
            seed = random.getrandbits(63) if request.seed is None else request.seed
            options = Sampling(
                *self._model.sampling(request), seed + sequence.index, request.logprobs
            )
            with self._lock:
                if self._is_closed:
                    raise Unavailable("the engine `transformers` is closed", code="engine.closed")
                self._subscribers[sequence.id] = (subscriber, sequence)
            if request.logprobs:
                self._scores.add(sequence.id)
            accepted = self._manager.add_request(
                prompt.ids,
                request_id=sequence.id,
                max_new_tokens=longest,
                streaming=True,
                eos_token_id=[*self._model.ends] or -1,
                sampling=options,
            )
            if accepted is None:
                self._leave(subscriber)
                raise Unavailable("the model's batch has stopped", code="engine.failed")
        return subscriber

    def _leave(self, subscriber: _Subscriber) -> None:
        for sequence in subscriber.sequences:
            with self._lock:
                entry = self._subscribers.pop(sequence.id, None)
            self._scores.forget(sequence.id)
            if entry is not None and not sequence.is_over:
                self._manager.cancel_request(sequence.id)

    def _parts(self, sequence: _Sequence, request: Request) -> Iterable[ChoiceStep]:
        """The new tokens of a sequence, and how it ended."""
        if not sequence.is_open:
            return
        # In this order: the library sets the last tokens before the end.
        is_over, tokens = sequence.is_over, sequence.tokens
        if sequence.error is not None:
            raise Unavailable("the model failed", code="engine.failed") from RuntimeError(
                sequence.error
            )
        fresh, sequence.sent = tokens[sequence.sent :], len(tokens)
        has_ended = is_over and bool(fresh) and fresh[-1] in self._model.ends
        if has_ended:
            fresh.pop()
        if fresh:
            yield ChoiceStep(
                sequence.index, fresh, logprobs=self._logprobs(sequence, fresh, request)
            )
        if is_over:
            sequence.is_open = False
            reason: Any = "stop" if has_ended else "length"
            yield ChoiceStep(sequence.index, tokens=0, finish_reason=reason)

    def _logprobs(
        self, sequence: _Sequence, ids: Iterable[int], request: Request
    ) -> tuple[Mapping[str, Any], ...] | None:
        if not request.logprobs:
            return None
        take, entry, top = self._scores.take, self._model.logprob, request.top_logprobs
        return tuple(entry(take(sequence.id), id, top) for id in ids)


def _wake_all(subscribers: Iterable[_Subscriber]) -> None:
    for subscriber in subscribers:
        subscriber.wake()
