"""The same for programs without coroutines: a background loop does the work, `for` takes what is
ready from a bounded buffer. A program may use it from many threads, and beside a running loop."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from functools import cache
from typing import Any, Final, Self, TypeVar, Unpack

from torvyn.client import failures
from torvyn.client.client import Asked, AsyncClient, Options
from torvyn.client.stream import AsyncStream
from torvyn.concurrency.background_loop import background_loop
from torvyn.concurrency.context_managers import Closing
from torvyn.concurrency.sync_reader import SyncReader, wait_for
from torvyn.errors import TorvynError
from torvyn.protocol.completion import Completion
from torvyn.protocol.frames import (
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    FilterSide,
    FinishReason,
    Frame,
    HeartbeatFrame,
    Kind,
    StartFrame,
    Usage,
)

Result = TypeVar("Result")
Item = TypeVar("Item")


def _done(coroutine: Coroutine[Any, Any, Result]) -> Result:
    loop = background_loop()
    if asyncio._get_running_loop() is loop:
        coroutine.close()
        raise failures.would_block()
    return wait_for(coroutine, loop)


_OPEN: Final[weakref.WeakSet[AsyncStream]] = weakref.WeakSet()
_LAST_S: Final = 1.0


@cache
def _at_exit() -> None:
    """Asked for with the first stream: what is asked for last comes first, and these need their
    connections, which are closed at the end of the program too."""
    atexit.register(_close_all)


def _close_all() -> None:
    """A program that ends leaves its streams, as who leaves a loop does."""
    for stream in list(_OPEN):
        with contextlib.suppress(Exception):
            closing = asyncio.run_coroutine_threadsafe(stream.aclose(), background_loop())
            closing.result(_LAST_S)


class Stream(Closing):
    """One answer on its way. Read once: frames by `for`, or `text()`, or `complete()`. Leaving its
    block, or its loop, ends the answer."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = stream
        self._seq: int | None = None
        _OPEN.add(stream)
        _at_exit()

    @property
    def id(self) -> str | None:
        """What the server calls it; None before it has begun."""
        return self._stream.id

    @property
    def flow(self) -> str | None:
        """The flow that answers."""
        return self._stream.flow

    @property
    def last_id(self) -> str | int | None:
        """The last frame that was read here, to go on from: `client.resume(id, after=last_id)`."""
        # The loop reads ahead of who reads here.
        return self._stream.last_id if self._seq is None else self._stream.place(self._seq)

    @property
    def end(self) -> EndFrame | None:
        """The last frame, once it has arrived."""
        return self._stream.end

    @property
    def error(self) -> TorvynError | None:
        """What the server said went wrong in the middle of the answer."""
        return self._stream.error

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        """How each choice ended; None while that is not known."""
        return self._stream.finish_reasons

    @property
    def filtered_side(self) -> FilterSide | None:
        """Where a guard ended a choice as `content_filter`: in the `prompt`, or in the
        `completion`. None: no choice ended so, or that is not known."""
        return self._stream.filtered_side

    @property
    def usage(self) -> Usage:
        """The tokens; known at the end."""
        return self._stream.usage

    @property
    def timing(self) -> dict[str, float]:
        """The figures of `AsyncStream.timing`, as measured here."""
        return self._stream.timing

    def begin(self) -> None:
        """Asks, and waits until the server has taken it; raises what it refuses."""
        _done(self._stream.begin())

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __iter__(self) -> Iterator[Frame]:
        return self._frames(self._reading(aiter(self._stream)))

    def _reading(self, items: AsyncGenerator[Item, None]) -> SyncReader[Item]:
        loop = background_loop()
        if asyncio._get_running_loop() is loop:
            raise failures.would_block()
        return SyncReader(items, loop, self._let_go)

    def _frames(self, frames: SyncReader[Frame]) -> Iterator[Frame]:
        self._seq = self._stream.seq
        with contextlib.closing(frames):
            for frame in frames:
                if not isinstance(frame, (StartFrame, HeartbeatFrame)):
                    self._seq = frame.seq
                yield frame

    def text(self, index: int = 0, kind: Kind = "text") -> Iterator[str]:
        """The text of one choice as it comes; raises when the answer breaks off."""
        if self._stream.jitter is not None:
            return self._reading(self._stream.text(index, kind))
        return self._texts(iter(self), index, kind)

    def _texts(self, frames: Iterator[Frame], index: int, kind: Kind) -> Iterator[str]:
        for frame in frames:
            if isinstance(frame, DeltaFrame) and frame.index == index and frame.kind == kind:
                yield frame.text
            elif isinstance(frame, ErrorFrame):
                # The end follows, which has the usage; if it gets here.
                with contextlib.suppress(TorvynError):
                    deque(frames, 0)
        self._stream.raise_error()

    def complete(self) -> Completion:
        """The whole answer; raises when it breaks off."""
        return _done(self._stream.complete())

    def stop(self) -> bool:
        """Ends it in good order: what the server held back comes, then the end, `stop`. False when
        it had ended. From any thread, as all of these."""
        return _done(self._stream.stop())

    def cancel(self) -> bool:
        """Ends it at once: what was held back is dropped, and it ends with `cancelled`. False when
        it had ended."""
        return _done(self._stream.cancel())

    def update(
        self, *, stop: str | Sequence[str] | None = None, max_tokens: int | None = None
    ) -> None:
        """Other stop strings, or another limit, for what is not yet released."""
        _done(self._stream.update(stop=stop, max_tokens=max_tokens))

    def detach(self) -> str:
        """Leaves a stateful stream, which goes on at the server, and gives its id."""
        return _done(self._stream.detach())

    def close(self) -> None:
        """Ends it, wherever it is: the connection at once; a stateful one is cancelled."""
        _done(self._stream.aclose())

    def _let_go(self) -> None:
        """Nobody reads it any more; nobody waits for its end either."""
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._stream.aclose(), background_loop())


class Client(Closing):
    """A server at `url`, such as `http://127.0.0.1:8080`. Options are those of `AsyncClient`."""

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        self._client = AsyncClient(url, **options)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._client.url

    def stream(
        self,
        asked: Asked,
        *,
        flow: str | None = None,
        stateful: bool = False,
        jitter: float | None = None,
        **options: Any,
    ) -> Stream:
        """An answer to a prompt, or to messages: see `AsyncClient.stream`."""
        given = {"flow": flow, "stateful": stateful, "jitter": jitter, **options}
        return Stream(self._client.stream(asked, **given))

    def resume(
        self, id: str, after: str | int | None = None, *, jitter: float | None = None
    ) -> Stream:
        """A stateful stream, from the frame after `after` on; without it, from the start."""
        return Stream(self._client.resume(id, after, jitter=jitter))

    def observe(self, id: str, *, jitter: float | None = None) -> Stream:
        """Another's stream as it goes on; who watches slows nothing and ends nothing."""
        return Stream(self._client.observe(id, jitter=jitter))

    def flows(self) -> dict[str, Any]:
        """What the server serves and what runs there, as `/flows` tells it."""
        return _done(self._client.flows())

    def models(self) -> list[str]:
        """The names that a request may give as `flow`."""
        return _done(self._client.models())

    def health(self) -> str:
        """`ready`, or what else the server says of itself. Raises when there is no server."""
        return _done(self._client.health())

    def close(self) -> None:
        """Closes its connections, and with them the streams that are still open."""
        _done(self._client.aclose())
