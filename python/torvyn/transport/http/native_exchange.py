"""An exchange over the native wire, which has the whole body and buffers little of an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeAlias
from urllib.parse import unquote

from torvyn._native import DirectText, MessageEncoder, WireExchange
from torvyn.protocol.encoder import Encoder
from torvyn.transport.access.caller import Caller
from torvyn.transport.http.body_limit import BodyBudget
from torvyn.transport.http.exchange import (
    HttpExchange,
    TextPoster,
    body_malformed,
    body_too_large,
    body_too_slow,
    host_ambiguous,
    too_many_bodies,
)
from torvyn.transport.settings import ServerSettings

MessagesEnd: TypeAlias = Literal["complete", "left", "too-large", "malformed", "bad-text", "slow"]
"""Why a client sends no more messages: it has said so, it has left without a word, or it has broken
a rule or a limit."""


class NativeExchange(HttpExchange):
    __slots__ = (
        "_arrived",
        "_is_half_closed",
        "_left",
        "_loop",
        "_native",
        "_on_half_closed",
        "_on_left",
        "_rooms",
    )

    def __init__(self, native: WireExchange, sample_rate: float = 0.0) -> None:
        headers = native.headers()
        if native.authority is not None:
            headers.setdefault("host", native.authority)
        super().__init__(
            native.method,
            unquote(native.path),
            native.query,
            headers,
            native.peer,
            sample_rate=sample_rate,
        )
        self._native = native
        self._loop = asyncio.get_running_loop()
        self._left: asyncio.Event | None = None
        self._rooms: list[asyncio.Future[None]] = []
        """Posts that wait for room: a heartbeat may wait beside the answer."""
        self._arrived: asyncio.Future[None] | None = None
        """A `receive` that waits for a message."""
        self._is_half_closed = False
        self._on_half_closed: Callable[[], None] | None = None
        self._on_left: Callable[[], None] | None = None

    def check(self) -> None:
        """Raises a rejection if it is ambiguous for which host the request is."""
        named = self._native.authority
        if self._native.hosts > 1 or (named is not None and self.headers["host"] != named):
            raise host_ambiguous()

    def recognise(self, caller: Caller) -> None:
        super().recognise(caller)
        if caller.key:
            self._native.recognise()

    async def read_body(self, settings: ServerSettings, bodies: BodyBudget) -> bytes:
        error = self._native.body_error
        if error is None:
            return self._native.take_body()
        if error == "too-large":
            raise body_too_large(settings.max_body_bytes)
        if error == "malformed":
            raise body_malformed()
        raise too_many_bodies() if error == "refused" else body_too_slow(settings)

    def _hold(self, status: int, headers: list[tuple[str, str]], parts: Sequence[bytes]) -> None:
        self._native.hold(status, headers, parts)

    @property
    def _is_held(self) -> bool:
        return self._native.is_held

    def release_soon(self) -> None:
        """Sends what `hold` was given, together with what is sent in the same turn of the loop."""
        self._loop.call_soon(self._native.release)

    async def send_whole(
        self, status: int, headers: Iterable[tuple[str, str]], data: bytes
    ) -> None:
        self._native.respond(status, list(headers), data)

    def post(self, data: bytes, is_last: bool = False) -> Awaitable[None] | None:
        has_room = self._native.append(data, is_last)
        return None if has_room or is_last else self._wait_for_room()

    def post_data(self, data: bytes) -> Awaitable[None] | None:
        """`post` of a message to a WebSocket that is not text."""
        return None if self._native.append_data(data) else self._wait_for_room()

    def text_poster(self, encoder: Encoder, opening: bytes | None = None) -> TextPoster:
        """`opening` replaces the bracket with which a frame begins."""
        append = self._native.append_text

        def post(text: str, index: int, kind: str) -> Awaitable[None] | None:
            has_room = append(encoder, text, index, kind, opening)
            return None if has_room else self._wait_for_room()

        return post

    def direct_text(
        self,
        encoder: Encoder | MessageEncoder,
        most_texts: int,
        most_bytes: int,
        opening: bytes | None = None,
    ) -> DirectText:
        now_s = time.perf_counter()
        return DirectText(self._native, encoder, now_s, most_texts, most_bytes, opening)

    @property
    def idle_s(self) -> float | None:
        return self._native.idle_s

    def wait_for_room(self) -> Awaitable[None] | None:
        return None if self._native.has_room else self._wait_for_room()

    def _wait_for_room(self) -> asyncio.Future[None]:
        room = self._loop.create_future()
        self._rooms.append(room)
        return room

    async def receive(self) -> str | bytes | None:
        """The next message of a client that sends many; None at their end, and `messages_end` is
        why. One caller at a time."""
        native = self._native
        while (message := native.receive()) is None and native.messages_end is None:
            self._arrived = self._loop.create_future()
            await self._arrived
        return message

    @property
    def messages_end(self) -> MessagesEnd | None:
        return self._native.messages_end

    def close(self, code: int, reason: str) -> None:
        """Closes a WebSocket."""
        self._native.close(code, reason)

    async def until_left(self) -> None:
        if not self.is_left:
            if self._left is None:
                self._left = asyncio.Event()
            await self._left.wait()

    def when_left(self, act: Callable[[], None] | None) -> bool:
        self._on_left = act
        if act is not None and self.is_left:
            self._loop.call_soon(act)
        return True

    @property
    def is_left(self) -> bool:
        return self._native.is_left

    def abort_after(self, seconds: float) -> None:
        self._native.abort_after(seconds)

    def when_half_closed(self, act: Callable[[], None] | None) -> None:
        self._on_half_closed = act
        if self._is_half_closed and act is not None:
            act()

    # What the wire tells

    def has_room(self) -> None:
        for room in self._rooms:
            _settle(room)
        self._rooms.clear()

    def has_message(self) -> None:
        if self._arrived is not None:
            _settle(self._arrived)

    def half_close(self) -> None:
        self._is_half_closed = True
        if self._on_half_closed is not None:
            self._on_half_closed()

    def leave(self) -> None:
        self.abandon_posts()
        if self._left is not None:
            self._left.set()
        if self._on_left is not None:
            self._on_left()

    def abandon_posts(self) -> None:
        """Ends every post that waits."""
        for room in self._rooms:
            if not room.done():
                room.set_exception(ConnectionResetError("the client has left"))
        self._rooms.clear()

    def end(self) -> None:
        """The request was handled: an answer that is not complete is broken."""
        self._on_half_closed = self._on_left = None
        self._native.abort_unless_finished()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
