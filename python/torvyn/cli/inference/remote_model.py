"""A server as the model of `generate` and `chat`: its streams in the shape of generations.

The streams are stateful, so that they survive a lost connection, unless the server refuses that.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
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
_STATEFUL_REFUSED: Final = "transport.stateful-refused"
_CANCEL_TIMEOUT_S: Final = 2.0
"""How long to wait for the end frame of a cancelled answer."""


class RemoteModel:
    """A server, and which of its flows answers."""

    def __init__(self, screen: Screen, url: str, key: str | None, flow: str | None) -> None:
        self._screen = screen
        self._flow = flow
        self._client = AsyncClient(url, key=key, on_reconnect=self._reconnecting)
        self._is_stateful = True
        self.name = flow or urlsplit(self._client.url).netloc

    def generate(self, prompt: str | Sequence[dict[str, str]], **options: Any) -> RemoteGeneration:
        def start() -> AsyncStream:
            stateful = self._is_stateful
            return self._client.stream(prompt, flow=self._flow, stateful=stateful, **options)

        limits = RemoteLimits(options.get("n") or 1, options.get("max_tokens"))
        return RemoteGeneration(start, limits, self._use_stateless)

    async def aclose(self) -> None:
        await self._client.aclose()

    def _use_stateless(self) -> None:
        if self._is_stateful:
            self._is_stateful = False
            self._screen.info(
                "[torvyn] The server runs several workers: an answer is not continued after a lost "
                "connection."
            )

    def _reconnecting(self, tries: int, why: TorvynError) -> None:
        if tries > 1:
            return
        if sys.stderr is not None and sys.stderr.isatty():
            # The answer may be in the middle of a line.
            self._screen.stream_dim("[reconnecting...]")
        else:
            self._screen.info(f"[torvyn] reconnecting... ({why.message})")


@dataclass(frozen=True)
class RemoteLimits:
    n: int
    max_tokens: int | None


class RemoteGeneration:
    """One answer of a server."""

    def __init__(
        self,
        start: Callable[[], AsyncStream],
        request: RemoteLimits,
        on_stateful_refused: Callable[[], None],
    ) -> None:
        """`start` is called again after `on_stateful_refused`, for a stream without state."""
        self.request = request
        self._start = start
        self._stream = start()
        self._on_stateful_refused = on_stateful_refused
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._cancellation: asyncio.Task[None] | None = None

    @property
    def request_id(self) -> str:
        return self._stream.id or ""

    @property
    def usage(self) -> Usage:
        return self._stream.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        reasons = self._stream.finish_reasons
        if self._cancellation is None:
            return reasons
        return tuple(reason or "cancelled" for reason in reasons)

    @property
    def filtered_side(self) -> FilterSide | None:
        return self._stream.filtered_side

    @property
    def timing(self) -> dict[str, float]:
        return self._stream.timing

    async def __aiter__(self) -> AsyncGenerator[Delta, None]:
        self._loop = asyncio.get_running_loop()
        try:
            async with contextlib.aclosing(self._frames()) as frames:
                async for frame in frames:
                    for delta in _deltas(frame):
                        yield delta
            if self._cancellation is None:
                self._stream.raise_error()
        except TorvynError as error:
            raise _with_command_hint(error) from error.__cause__
        finally:
            self._ended.set()
            if self._cancellation is not None:
                await self._cancellation

    async def _frames(self) -> AsyncGenerator[Frame, None]:
        try:
            async with contextlib.aclosing(aiter(self._stream)) as frames:
                async for frame in frames:
                    yield frame
            return
        except TorvynError as error:
            if error.code != _STATEFUL_REFUSED:
                raise
        self._on_stateful_refused()
        self._stream = self._start()
        async with contextlib.aclosing(aiter(self._stream)) as frames:
            async for frame in frames:
                yield frame

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        if self._cancellation is None:
            self._cancellation = asyncio.ensure_future(self._cancel())
        else:
            # The second call does not wait for the server.
            self._cancellation.cancel()

    async def _cancel(self) -> None:
        """Cancels the stream and waits for its end frame, which holds the usage."""
        with contextlib.suppress(TorvynError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                if await self._stream.cancel():
                    await self._ended.wait()
        await self._stream.aclose()


def _with_command_hint(error: TorvynError) -> TorvynError:
    """The server's hint names an HTTP header; a command passes the key in other ways."""
    if error.code in _KEY_CODES:
        error.diagnostics = tuple(replace(each, hint=_KEY_HINT) for each in error.diagnostics)
    return error


def _deltas(frame: Frame) -> Iterator[Delta]:
    """The frame as an engine's deltas: an end frame is one finish per choice."""
    if isinstance(frame, DeltaFrame):
        yield Delta(frame.index, frame.text, frame.kind, frame.call, frame.logprobs)
    elif isinstance(frame, EndFrame):
        for finish in frame.finish:
            yield Delta(finish.index, finish_reason=finish.reason, matched_stop=finish.matched_stop)
