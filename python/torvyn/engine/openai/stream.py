"""The response of an upstream: bytes -> steps.

What arrives together makes one step. An answer is complete when every choice has a finish reason;
anything else is an error, with or without `[DONE]`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from torvyn._native import ChunkParser
from torvyn.engine.openai.client import Direct, Part, UpstreamResponse
from torvyn.engine.openai.failures import Upstream, limits_of
from torvyn.engine.openai.request_body import Api
from torvyn.engine.openai.steps import Steps
from torvyn.engine.step import Step
from torvyn.errors import TorvynError
from torvyn.protocol.openai.chunk_decoder import ChunkReader, Item

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectPath

Data = TypeVar("Data")
MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_EVENT_BYTES: Final = 8 * MAX_LINE_BYTES
_MOST_WHOLE: Final = 16 * 1024 * 1024
_GRACE_S: Final = 2.0
"""How long to wait for `[DONE]` when the answer is complete."""


class UpstreamAnswer:
    """The answer in a response with status 200, which is set when its head has arrived."""

    def __init__(
        self, choices: int, api: Api, upstream: Upstream, max_line_bytes: int = MAX_LINE_BYTES
    ) -> None:
        self.response: UpstreamResponse | None = None
        self._choices = choices
        self._decoder = _Decoder(choices, api, max_line_bytes)
        self._upstream = upstream
        self._steps = Steps(choices, upstream)

    @property
    def has_begun(self) -> bool:
        """Whether some of it has been handed on."""
        is_direct = self.response is not None and self.response.direct_idle_s is not None
        return self._steps.has_begun or is_direct

    def close(self) -> None:
        """Closes the connection at once. After `[DONE]` it is kept for another request: the end of
        the body is about to arrive."""
        if self.response is None:
            return
        if self._steps.is_done:
            self.response.release()
        else:
            self.response.close()

    def direct(self, path: DirectPath, idle_s: float) -> Direct:
        """Lets plain text take the direct path."""
        return Direct(partial(path.arm, self._decoder.parser), idle_s)

    def steps(
        self, first_deadline_s: float, idle_s: float, too_slow: Callable[..., TorvynError]
    ) -> AsyncIterator[Step]:
        response = self.response
        assert response is not None
        if response.content_type == "text/event-stream":
            return self._streamed(response, first_deadline_s, idle_s, too_slow)
        if response.content_type == "application/json":
            return self._whole(response, first_deadline_s, too_slow)
        return self._refused(response, first_deadline_s)

    async def _streamed(
        self,
        response: UpstreamResponse,
        deadline_s: float,
        idle_s: float,
        too_slow: Callable[..., TorvynError],
    ) -> AsyncIterator[Step]:
        decoder, state = self._decoder, self._steps
        deadline_s = self._after_direct(response, deadline_s, idle_s)
        while not state.is_done:
            try:
                data = await self._read(deadline_s, response.read_stream)
            except TimeoutError:
                if not state.is_complete:
                    has_begun = state.has_begun or response.direct_idle_s is not None
                    raise too_slow(has_begun=has_begun) from None
                if state.bad_end is not None:
                    raise state.bad_end from None
                return
            is_rest = isinstance(data, list)
            if is_rest:
                deadline_s = self._after_direct(response, deadline_s, idle_s)
            next_step = None
            for next_step in state.steps(
                decoder.put(data) if data or is_rest else decoder.finish()
            ):
                yield next_step
            if next_step is None and is_rest:
                yield Step(())  # What the direct path has counted is taken over.
            self._raise_failure(response)
            # Comments do not extend the deadline; only content does.
            if next_step is not None and state.has_begun:
                pause_s = min(idle_s, _GRACE_S) if state.is_complete else idle_s
                deadline_s = asyncio.get_running_loop().time() + pause_s

    def _after_direct(self, response: UpstreamResponse, deadline_s: float, idle_s: float) -> float:
        """The deadline, which text on the direct path has moved."""
        passed_s = response.direct_idle_s
        if passed_s is None:
            return deadline_s
        self._steps.begin_directly()
        return asyncio.get_running_loop().time() - passed_s + idle_s

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

    async def _refused(
        self, response: UpstreamResponse, deadline_s: float
    ) -> AsyncGenerator[Step, None]:
        try:
            data = await self._read(deadline_s, response.read)
        except (TimeoutError, TorvynError):
            data = b""
        text = data.decode(errors="replace")
        detail = f"`{response.content_type}` instead of an event stream: {text}"
        raise self._upstream.garbage("something other than an event stream", detail)
        yield

    async def _whole(
        self, response: UpstreamResponse, deadline_s: float, too_slow: Callable[..., TorvynError]
    ) -> AsyncIterator[Step]:
        """An upstream that does not stream: the answer in one piece."""
        data = bytearray()
        try:
            while piece := await self._read(deadline_s, response.read):
                data += piece
                if len(data) > _MOST_WHOLE:
                    raise self._upstream.garbage(f"more than {_MOST_WHOLE} bytes")
        except TimeoutError:
            raise too_slow() from None
        items = _whole_items(self._choices, data.decode(errors="replace"))
        for step in self._steps.steps(items):
            yield step
        self._raise_failure(response)

    def _raise_failure(self, response: UpstreamResponse) -> None:
        """Raises what came with the last step, if anything."""
        failure = self._steps.failure
        if failure is None:
            return
        if failure.reply is not None:
            failure.reply = replace(failure.reply, headers=limits_of(response.headers))
        raise failure


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
