"""`Client` and `Stream`, for programs without coroutines: a background loop reads into a bounded
buffer, and `for` reads from the buffer. Safe to use from many threads, and next to a running loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from functools import cache
from typing import Any, Final, Self, TypeVar, Unpack

from torvyn._io.background_loop import SyncReader, background_loop, wait_for
from torvyn._io.closing import CloseOnExit
from torvyn.client import failures
from torvyn.client.client import AsyncClient, Options, Prompt
from torvyn.client.stream import AsyncStream, StreamProperties
from torvyn.errors import TorvynError
from torvyn.protocol.completion import Completion
from torvyn.protocol.frames import (
    DeltaFrame,
    ErrorFrame,
    Frame,
    HeartbeatFrame,
    Kind,
    StartFrame,
)

Result = TypeVar("Result")
Item = TypeVar("Item")


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    loop = background_loop()
    if asyncio._get_running_loop() is loop:
        coroutine.close()
        raise failures.would_block()
    return wait_for(coroutine, loop)


_OPEN: Final[weakref.WeakSet[AsyncStream]] = weakref.WeakSet()
_CLOSE_TIMEOUT_S: Final = 1.0


@cache
def _close_at_exit() -> None:
    """Registered with the first stream, after the connection pool: exit functions run in reverse
    order, and closing a stream needs its connection."""
    atexit.register(_close_all)


def _close_all() -> None:
    """Ends the open streams of a program that exits, as leaving their loops would."""
    for stream in list(_OPEN):
        with contextlib.suppress(Exception):
            wait_for(stream.aclose(), background_loop(), _CLOSE_TIMEOUT_S)


class Stream(StreamProperties, CloseOnExit):
    """One answer, from `client.stream`. Read it once: frames with `for`, or `text()`, or
    `complete()`. Leaving its block or its loop ends the answer. All methods are thread-safe."""

    def __init__(self, stream: AsyncStream) -> None:
        super().__init__(stream._resumable, stream._choices, stream._secret)
        self._stream = stream
        self._reads_frames = False
        _OPEN.add(stream)
        _close_at_exit()

    @property
    def last_id(self) -> str | int | None:
        """The last frame that was read, to continue with `client.resume(id, after=last_id)`."""
        # The background loop reads ahead of a program that reads frames.
        return super().last_id if self._reads_frames else self._stream.last_id

    def begin(self) -> None:
        """Sends the request and waits until the server has accepted it; raises its rejection."""
        _run(self._stream.begin())

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __iter__(self) -> Iterator[Frame]:
        return self._frames(self._reading(aiter(self._stream)))

    def _reading(self, items: AsyncGenerator[Item, None]) -> SyncReader[Item]:
        loop = background_loop()
        if asyncio._get_running_loop() is loop:
            raise failures.would_block()
        return SyncReader(items, loop, self._close_soon)

    def _frames(self, frames: SyncReader[Frame]) -> Iterator[Frame]:
        self._reads_frames = True
        with contextlib.closing(frames):
            for frame in frames:
                if not isinstance(frame, (StartFrame, HeartbeatFrame)):
                    self.seq = frame.seq
                yield frame

    def text(self, index: int = 0, kind: Kind = "text") -> Iterator[str]:
        """The text of one choice as it arrives; raises if the answer does not reach its end."""
        if self._stream.jitter is not None:
            return self._reading(self._stream.text(index, kind))
        return self._texts(iter(self), index, kind)

    def _texts(self, frames: Iterator[Frame], index: int, kind: Kind) -> Iterator[str]:
        for frame in frames:
            if isinstance(frame, DeltaFrame) and frame.index == index and frame.kind == kind:
                yield frame.text
            elif isinstance(frame, ErrorFrame):
                # The end frame follows and holds the usage, if it arrives.
                with contextlib.suppress(TorvynError):
                    deque(frames, 0)
        self._stream.raise_error()

    def complete(self) -> Completion:
        """The whole answer; raises if it does not reach its end."""
        return _run(self._stream.complete())

    def stop(self) -> bool:
        """Ends the answer gracefully: the server sends the text that it has withheld, then the end
        frame with `stop`. False if the answer had already ended."""
        return _run(self._stream.stop())

    def cancel(self) -> bool:
        """Ends the answer at once with `cancelled`; the server drops the text that it has withheld.
        False if the answer had already ended."""
        return _run(self._stream.cancel())

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """Changes the stop strings or the token limit for the rest of the answer."""
        _run(self._stream.update(stop=stop, max_tokens=max_tokens))

    def detach(self) -> str:
        """Disconnects from a stateful stream, which continues at the server, and returns its id."""
        return _run(self._stream.detach())

    def close(self) -> None:
        """Closes the connection at once, and cancels a stateful stream at the server."""
        _run(self._stream.aclose())

    def _close_soon(self) -> None:
        """Closes it without waiting, because its reader has gone."""
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._stream.aclose(), background_loop())


class Client(CloseOnExit):
    """A client of the server at `url`, such as `http://127.0.0.1:8080`. It takes the options of
    `AsyncClient`."""

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        self._client = AsyncClient(url, **options)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._client.url

    def stream(
        self,
        prompt: Prompt,
        *,
        flow: str | None = None,
        stateful: bool = False,
        jitter: float | None = None,
        **options: Any,
    ) -> Stream:
        """The answer to a prompt or to a list of messages: see `AsyncClient.stream`."""
        options |= {"flow": flow, "stateful": stateful, "jitter": jitter}
        return Stream(self._client.stream(prompt, **options))

    def resume(
        self, id: str, after: str | int | None = None, *, jitter: float | None = None
    ) -> Stream:
        """Reads a stateful stream from the frame that follows `after`, or from the start."""
        return Stream(self._client.resume(id, after, jitter=jitter))

    def observe(self, id: str, *, jitter: float | None = None) -> Stream:
        """Reads along with another client's stream; an observer neither slows nor ends it."""
        return Stream(self._client.observe(id, jitter=jitter))

    def flows(self) -> dict[str, Any]:
        """The server's flows and the answers that are running, from `/flows`."""
        return _run(self._client.flows())

    def pools(self) -> dict[str, Any]:
        """The pools of the server's flows and their members, from `/pools`."""
        return _run(self._client.pools())

    def change_pool(self, action: str, **fields: str) -> dict[str, Any]:
        """Changes the members of a pool: `change_pool("drain", member="gpu1:8000")`. Returns the
        state of the pool."""
        return _run(self._client.change_pool(action, **fields))

    def models(self) -> list[str]:
        """The names that you can pass as `flow`."""
        return _run(self._client.models())

    def health(self) -> str:
        """The server's status, such as `ready`. Raises if the server cannot be reached."""
        return _run(self._client.health())

    def close(self) -> None:
        """Closes the connections, and the streams that are still open."""
        _run(self._client.aclose())
