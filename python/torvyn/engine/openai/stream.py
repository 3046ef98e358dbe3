"""The response of an upstream: bytes -> steps.

What arrives together makes one step. An answer is complete when every choice has a finish reason;
anything else is an error, with or without `[DONE]`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from torvyn._native import ChunkParser
from torvyn.engine.openai.client import Part, UpstreamResponse
from torvyn.engine.openai.failures import Upstream, logger
from torvyn.engine.openai.request_body import Api
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import InvalidInput, TorvynError
from torvyn.protocol.frames import DeltaFrame, ErrorFrame, Finish, Usage
from torvyn.protocol.openai.chunk_decoder import DONE, ChunkReader, Item
from torvyn.protocol.openai.finish_reasons import translate

if TYPE_CHECKING:
    from torvyn._native import WireReply
    from torvyn.engine.answer.direct_path import DirectPath

Data = TypeVar("Data")
MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_EVENT_BYTES: Final = 8 * MAX_LINE_BYTES
_MOST_WHOLE: Final = 16 * 1024 * 1024
_GRACE_S: Final = 2.0
"""How long to wait for `[DONE]` when the answer is complete."""


class Steps:
    """Items of the decoder -> steps; knows which choices are still open.

    Raise `failure` after the step that came with it.
    """

    def __init__(self, choices: int, upstream: Upstream) -> None:
        self._choices = choices
        self._open = set(range(choices))
        self._begun: set[int] = set()
        self._upstream = upstream
        self.bad_end: TorvynError | None = None
        """A choice has ended as `error`; raised when the others have ended too."""
        self.has_begun = False
        self.is_done = False
        self.failure: TorvynError | None = None

    @property
    def is_complete(self) -> bool:
        """Every choice has a finish reason."""
        return not self._open

    def step(self, items: Iterable[Item]) -> Step | None:
        parts: list[ChoiceStep] = []
        usage: Usage | None = None
        try:
            for item in items:
                if isinstance(item, DeltaFrame):
                    if item.index not in self._begun:
                        self._begin(item.index)
                    parts.append(_delta(item))
                elif isinstance(item, Finish):
                    parts.append(self._finish(item))
                elif isinstance(item, Usage):
                    usage = item
                elif isinstance(item, ErrorFrame):
                    self.failure = self.failure or self._upstream.error_event(item)
                elif item is DONE:
                    self.end()
        except InvalidInput as error:
            # Raised later, so that the text before it is not lost.
            self.failure = self.failure or self._decoding_failure(error)
        except TorvynError as error:
            self.failure = self.failure or error
        if not parts and usage is None:
            return None
        self.has_begun = self.has_begun or bool(parts)
        return Step(parts, usage)

    def end(self) -> None:
        """The upstream has ended its answer; raises if it is incomplete."""
        self.is_done = True
        if self._open:
            raise self._missing_finish()
        if self.bad_end is not None:
            raise self.bad_end

    def _decoding_failure(self, error: InvalidInput) -> TorvynError:
        is_short = error.code == "protocol.stream-cut" and bool(self._begun)
        if is_short and self._open.isdisjoint(self._begun):
            # The choices that it began are complete: it generated fewer choices than requested.
            return self._missing_finish()
        failed: TorvynError = self._upstream.decoding_failure(error)
        return failed

    def _missing_finish(self) -> TorvynError:
        return self._upstream.missing_finish(self._choices, sorted(self._open), self._begun)

    def _begin(self, index: int) -> None:
        if not 0 <= index < self._choices:
            raise self._upstream.garbage(f"a choice {index} of {self._choices}")
        self._begun.add(index)

    def _finish(self, finish: Finish) -> ChoiceStep:
        self._begin(finish.index)
        self._open.discard(finish.index)
        native = finish.native_reason
        if native is not None:
            _report(native, finish.reason)
        if finish.reason == "error":
            failed = self._upstream.bad_finish(finish.index, native or finish.reason)
            self.bad_end = self.bad_end or failed
        return ChoiceStep(
            finish.index,
            tokens=0,
            finish_reason=finish.reason,
            matched_stop=finish.matched_stop,
            native_reason=native,
        )


def _delta(delta: DeltaFrame) -> ChoiceStep:
    # Without log probabilities the number of tokens in a chunk is unknown; it is usually one.
    tokens = len(delta.logprobs) if delta.logprobs else 1
    return ChoiceStep(
        delta.index, (), b"", delta.text, delta.kind, delta.call, delta.logprobs, tokens
    )


_reported: set[str] = set()
_MOST_REPORTED: Final = 64


def _report(native: str, ours: str) -> None:
    """Warns once per process about an unknown finish reason; an upstream may invent many."""
    _, is_known = translate(native)
    if is_known or native in _reported or len(_reported) >= _MOST_REPORTED:
        return
    _reported.add(native)
    logger.warning(
        "an upstream uses the finish reason %r, which is read as `%s`",
        native,
        ours,
        extra={"event": "upstream.finish-reason", "native_reason": native, "reason": ours},
    )


class UpstreamAnswer:
    """A response with status 200."""

    def __init__(
        self,
        response: UpstreamResponse,
        choices: int,
        api: Api,
        upstream: Upstream,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        self._response = response
        self._choices = choices
        self._decoder = _Decoder(choices, api, max_line_bytes)
        self._upstream = upstream
        self._steps = Steps(choices, upstream)

    def close(self) -> None:
        """Closes the connection at once. After `[DONE]` it is kept for another request: the end of
        the body is about to arrive."""
        if self._steps.is_done:
            self._response.release()
        else:
            self._response.close()

    def take_direct(self, path: DirectPath, idle_s: float) -> None:
        """Lets plain text take the direct path, after the first."""
        steps, parser = self._steps, self._decoder.parser

        def arm(reply: WireReply) -> None:
            if steps.has_begun:
                path.arm(parser, reply)

        self._response.take_direct(arm, idle_s)

    async def steps(
        self, first_deadline_s: float, idle_s: float, too_slow: Callable[..., TorvynError]
    ) -> AsyncIterator[Step]:
        kind = self._response.content_type
        if kind == "application/json":
            async for step in self._whole(first_deadline_s, too_slow):
                yield step
            return
        if kind != "text/event-stream":
            text = await self._beginning(first_deadline_s)
            detail = f"`{kind}` instead of an event stream: {text}"
            raise self._upstream.garbage("something other than an event stream", detail)
        decoder = self._decoder
        state, deadline_s, now = self._steps, first_deadline_s, asyncio.get_running_loop().time
        while not state.is_done:
            try:
                data = await self._read(deadline_s, self._response.read_stream)
            except TimeoutError:
                if not state.is_complete:
                    raise too_slow(has_begun=state.has_begun) from None
                if state.bad_end is not None:
                    raise state.bad_end from None
                return
            has_more = data or isinstance(data, list)
            next_step = state.step(decoder.put(data) if has_more else decoder.finish())
            if next_step is not None or isinstance(data, list):
                yield next_step or Step(())
            if state.failure is not None:
                raise state.failure
            # Comments do not extend the deadline; only content does.
            if next_step is not None and state.has_begun:
                deadline_s = now() + (min(idle_s, _GRACE_S) if state.is_complete else idle_s)

    async def _read(
        self, deadline_s: float, read: Callable[[float], Awaitable[Data]]
    ) -> Data | bytes:
        """What it reads; no bytes at the end."""
        try:
            return await read(deadline_s)
        except TimeoutError:
            raise
        except OSError as error:
            if self._steps.is_complete:
                return b""
            raise self._upstream.truncation(str(error)) from error

    async def _beginning(self, deadline_s: float) -> str:
        try:
            data = await self._read(deadline_s, self._response.read)
        except (TimeoutError, TorvynError):
            data = b""
        return data.decode(errors="replace")

    async def _whole(
        self, deadline_s: float, too_slow: Callable[..., TorvynError]
    ) -> AsyncIterator[Step]:
        """An upstream that does not stream: the answer in one piece."""
        data = bytearray()
        try:
            while piece := await self._read(deadline_s, self._response.read):
                data += piece
                if len(data) > _MOST_WHOLE:
                    raise self._upstream.garbage(f"more than {_MOST_WHOLE} bytes")
        except TimeoutError:
            raise too_slow() from None
        step = self._steps.step(_whole_items(self._choices, data.decode(errors="replace")))
        if step is not None:
            yield step
        if self._steps.failure is not None:
            raise self._steps.failure


class _Decoder:
    """Bytes -> items, one at a time, so that a failure does not lose the items before it."""

    def __init__(self, choices: int, api: Api, max_line_bytes: int) -> None:
        self.parser = ChunkParser(
            "openai-chat" if api == "chat" else "openai-completions",
            line_limit=max_line_bytes,
            event_limit=max(_MAX_EVENT_BYTES, max_line_bytes),
        )
        self._reader = ChunkReader(choices)

    def put(self, data: bytes | list[Part]) -> Iterator[Item]:
        for part in data if isinstance(data, list) else self.parser.put(data):
            if isinstance(part, tuple):
                yield self._reader.text(*part)
            else:
                yield from self._reader.event(part)
        self.parser.finish()

    def finish(self) -> Iterator[Item]:
        self.parser.finish()
        yield from self._reader.finish(self.parser.held_bytes)


def _whole_items(choices: int, text: str) -> Iterator[Item]:
    reader = ChunkReader(choices)
    yield from reader.chunk(_as_chunk(text))
    yield from reader.finish()


def _as_chunk(text: str) -> str:
    """A whole response as one chunk: its message is one large delta."""
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for choice in whole.get("choices") or () if isinstance(whole, dict) else ():
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
            choice["delta"] = choice.pop("message")
    return json.dumps(whole)
