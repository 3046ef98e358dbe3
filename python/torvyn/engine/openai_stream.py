"""The answer of an upstream: bytes as they come -> steps, until it has ended properly.

What came together makes one step. An answer ends with `[DONE]`, or with the connection after every
choice has said why it ended; everything else is an error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from torvyn._native import ChunkParser
from torvyn.engine import openai_failure as failure
from torvyn.engine.openai_body import Api
from torvyn.engine.step import ChoiceStep, Step
from torvyn.errors import InvalidInput, TorvynError
from torvyn.protocol.chunks import DONE, ChunkReader, Item
from torvyn.protocol.frames import Delta, Error, Finish, Usage

if TYPE_CHECKING:
    import aiohttp

_MOST_WHOLE: Final = 16 * 1024 * 1024
_GRACE_S: Final = 2.0
"""How long an upstream may take to say `[DONE]` when all has been said."""


class Steps:
    """Items of the decoder -> steps; knows which choices are still open.

    `failure` is to be raised after the step that was made with it.
    """

    def __init__(self, choices: int, where: str, key: str | None = None) -> None:
        self._choices = choices
        self._open = set(range(choices))
        self._where = where
        self._key = key
        self.has_begun = False
        self.is_done = False
        self.failure: TorvynError | None = None

    @property
    def is_complete(self) -> bool:
        """Every choice has said why it ended."""
        return not self._open

    def step(self, items: Iterable[Item]) -> Step | None:
        parts: list[ChoiceStep] = []
        usage: Usage | None = None
        try:
            for item in items:
                if isinstance(item, (Delta, Finish)) and not 0 <= item.index < self._choices:
                    what = f"a choice {item.index} of {self._choices}"
                    self.failure = failure.garbled(what, self._where)
                    break
                if isinstance(item, Delta):
                    parts.append(_part(item))
                elif isinstance(item, Finish):
                    self._open.discard(item.index)
                    parts.append(_finish(item))
                elif isinstance(item, Usage):
                    usage = item
                elif isinstance(item, Error):
                    self.failure = failure.told(item, self._key, self._where)
                    break
                elif item is DONE:
                    self.is_done = True
        except InvalidInput as error:
            # After what came before it: no text is lost to what follows it.
            self.failure = failure.from_decoder(error, self._where)
        if not parts and usage is None:
            return None
        self.has_begun = self.has_begun or bool(parts)
        return Step(parts, usage)


def _part(delta: Delta) -> ChoiceStep:
    # Without log probabilities nobody says how many tokens a chunk is; one is the usual number.
    tokens = len(delta.logprobs) if delta.logprobs else 1
    return ChoiceStep(
        delta.index, (), b"", delta.text, delta.kind, delta.call, delta.logprobs, tokens
    )


def _finish(finish: Finish) -> ChoiceStep:
    return ChoiceStep(
        finish.index, tokens=0, finish_reason=finish.reason, matched_stop=finish.matched_stop
    )


class Answer:
    """One answer with status 200."""

    def __init__(
        self, response: aiohttp.ClientResponse, choices: int, api: Api, where: str, key: str | None
    ) -> None:
        self._response = response
        self._choices = choices
        self._api: Api = api
        self._where = where
        self._key = key
        self._steps = Steps(choices, where, key)

    @property
    def is_done(self) -> bool:
        """The upstream said that this was all; the end of the body may still be on its way."""
        return self._steps.is_done

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
            raise failure.garbled(f"`{kind}` and no event stream: {text}", self._where)
        decoder = _Decoder(self._choices, self._api)
        state, deadline_s, now = self._steps, first_deadline_s, asyncio.get_running_loop().time
        while not state.is_done:
            try:
                data = await self._read(deadline_s)
            except TimeoutError:
                if state.is_complete:
                    return
                raise too_slow(has_begun=state.has_begun) from None
            made = state.step(decoder.put(data) if data else decoder.finish())
            if made is not None:
                yield made
            if state.failure is not None:
                raise state.failure
            # A comment keeps nobody waiting for ever: only what says something counts.
            if made is not None and state.has_begun:
                deadline_s = now() + (min(idle_s, _GRACE_S) if state.is_complete else idle_s)

    async def _read(self, deadline_s: float) -> bytes:
        """The next bytes; none at the end."""
        import aiohttp

        async with asyncio.timeout_at(deadline_s):
            try:
                return await self._response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                if "content-encoding" in str(error):
                    raise failure.garbled("bytes that do not unpack", self._where) from error
                if self._steps.is_complete:
                    return b""
                raise failure.cut(failure.shown(str(error)), self._where) from error

    async def _beginning(self, deadline_s: float) -> str:
        try:
            data = await self._read(deadline_s)
        except (TimeoutError, TorvynError):
            data = b""
        return failure.shown(data.decode(errors="replace"), self._key)

    async def _whole(
        self, deadline_s: float, too_slow: Callable[..., TorvynError]
    ) -> AsyncIterator[Step]:
        """An upstream that does not stream: the answer in one piece."""
        data = bytearray()
        try:
            while piece := await self._read(deadline_s):
                data += piece
                if len(data) > _MOST_WHOLE:
                    raise failure.garbled(f"more than {_MOST_WHOLE} bytes", self._where)
        except TimeoutError:
            raise too_slow() from None
        step = self._steps.step(_whole_items(self._choices, data.decode(errors="replace")))
        if step is not None:
            yield step
        if self._steps.failure is not None:
            raise self._steps.failure


class _Decoder:
    """Bytes -> items, one at a time, so that those before a failure are not lost with it."""

    def __init__(self, choices: int, api: Api) -> None:
        self._parser = ChunkParser("openai-chat" if api == "chat" else "openai-completions")
        self._reader = ChunkReader(choices)

    def put(self, data: bytes) -> Iterator[Item]:
        for part in self._parser.put(data):
            if isinstance(part, tuple):
                yield self._reader.text(*part)
            else:
                yield from self._reader.event(part)
        self._parser.finish()

    def finish(self) -> Iterator[Item]:
        self._parser.finish()
        yield from self._reader.finish(self._parser.held_bytes)


def _whole_items(choices: int, text: str) -> Iterator[Item]:
    reader = ChunkReader(choices)
    yield from reader.chunk(_as_chunk(text))
    yield from reader.finish()


def _as_chunk(text: str) -> str:
    """A whole answer in the form of a chunk: its message is one large delta."""
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for choice in whole.get("choices") or () if isinstance(whole, dict) else ():
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
            choice["delta"] = choice.pop("message")
    return json.dumps(whole)
