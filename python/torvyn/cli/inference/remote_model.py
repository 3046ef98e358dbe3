"""A server as the voice of `generate` and `chat`: its streams in the shape of generations.

They are stateful, so that a network that fails costs nothing but time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from torvyn.cli.screen import Screen
from torvyn.client import AsyncClient, AsyncStream
from torvyn.engine import Delta
from torvyn.errors import TorvynError
from torvyn.protocol import DeltaFrame, EndFrame, FilterSide, FinishReason, Frame, Usage

_KEY_CODES: Final = ("transport.key-missing", "transport.key-wrong")
_KEY_HINT: Final = (
    "set TORVYN_KEY to the key that the server's operator gave you, or use `--key KEY`"
)
_FAREWELL_S: Final = 2.0
"""How long the server may take to say how an answer ended that was cancelled."""


class Remote:
    """A server, and the flow of it that answers."""

    def __init__(self, screen: Screen, url: str, key: str | None, flow: str | None) -> None:
        self._screen = screen
        self._flow = flow
        self._client = AsyncClient(url, key=key, on_reconnect=self._reconnecting)
        self.name = flow or urlsplit(self._client.url).netloc

    def generate(self, asked: str | Sequence[dict[str, str]], **options: Any) -> RemoteReply:
        stream = self._client.stream(asked, flow=self._flow, stateful=True, **options)
        return RemoteReply(stream, Wanted(options.get("n") or 1, options.get("max_tokens")))

    async def aclose(self) -> None:
        await self._client.aclose()

    def _reconnecting(self, tries: int, why: TorvynError) -> None:
        if tries > 1:
            return
        if sys.stderr is not None and sys.stderr.isatty():
            # An answer is in the middle of a line.
            self._screen.mutter("[reconnecting...]")
        else:
            self._screen.say(f"[torvyn] reconnecting... ({why.message})")


@dataclass(frozen=True)
class Wanted:
    n: int
    max_tokens: int | None


class RemoteReply:
    """One answer of a server."""

    def __init__(self, stream: AsyncStream, request: Wanted) -> None:
        self.request = request
        self._stream = stream
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None

    @property
    def request_id(self) -> str:
        return self._stream.id or ""

    @property
    def usage(self) -> Usage:
        return self._stream.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        told = self._stream.finish_reasons
        if self._ending is None:
            return told
        return tuple(reason or "cancelled" for reason in told)

    @property
    def filtered_side(self) -> FilterSide | None:
        return self._stream.filtered_side

    @property
    def timing(self) -> dict[str, float]:
        return self._stream.timing

    async def __aiter__(self) -> AsyncGenerator[Delta, None]:
        self._loop = asyncio.get_running_loop()
        try:
            async with contextlib.aclosing(aiter(self._stream)) as frames:
                async for frame in frames:
                    for delta in _deltas(frame):
                        yield delta
            if self._ending is None:
                self._stream.raise_error()
        except TorvynError as error:
            raise _for_a_command(error) from error.__cause__
        finally:
            self._is_over.set()
            if self._ending is not None:
                await self._ending

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        else:
            # Asked twice: without a farewell.
            self._ending.cancel()

    async def _end(self) -> None:
        """The server says how it ended, with the usage, if it can."""
        with contextlib.suppress(TorvynError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_FAREWELL_S):
                if await self._stream.cancel():
                    await self._is_over.wait()
        await self._stream.aclose()


def _for_a_command(error: TorvynError) -> TorvynError:
    """The server's hint speaks of headers; a command line gives a key in other ways."""
    if error.code in _KEY_CODES:
        error.diagnostics = tuple(replace(each, hint=_KEY_HINT) for each in error.diagnostics)
    return error


def _deltas(frame: Frame) -> Iterator[Delta]:
    """The frame as deltas of an engine: the end as a finish for each choice."""
    if isinstance(frame, DeltaFrame):
        yield Delta(frame.index, frame.text, frame.kind, frame.call, frame.logprobs)
    elif isinstance(frame, EndFrame):
        for one in frame.finish:
            yield Delta(one.index, finish_reason=one.reason, matched_stop=one.matched_stop)
