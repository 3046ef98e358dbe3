"""An exchange over ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from torvyn._io.event_loop import begin_wait
from torvyn.transport.http.body_limit import BodyBudget, BodyRead
from torvyn.transport.http.exchange import (
    ClientDisconnected,
    HttpExchange,
    body_too_large,
    body_too_slow,
    too_many_bodies,
)
from torvyn.transport.settings import ServerSettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiExchange(HttpExchange):
    __slots__ = ("_held", "receive", "send")

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, sample_rate: float = 0.0
    ) -> None:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")
            # A repeated header is one list: a second `Host` does not replace the first.
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        peer = scope.get("client")
        super().__init__(
            scope["method"],
            scope["path"],
            bytes(scope.get("query_string", b"")).decode("latin-1"),
            headers,
            str(peer[0]) if peer else None,
            root=scope.get("root_path", ""),
            sample_rate=sample_rate,
        )
        self.receive = receive
        self.send = send
        self._held: tuple[Message, bytes] | None = None
        """The head of a response, and its first parts."""

    async def read_body(self, settings: ServerSettings, bodies: BodyBudget) -> bytes:
        try:
            async with asyncio.timeout(settings.body_timeout_s) as timeout:
                due_s = timeout.when()
                body_read = bodies.open(timeout)
                try:
                    return await self._read(settings.max_body_bytes, body_read, bodies)
                finally:
                    bodies.close(body_read)
        except TimeoutError:
            was_refused = timeout.when() != due_s
        raise too_many_bodies() if was_refused else body_too_slow(settings)

    async def _read(self, limit_bytes: int, body_read: BodyRead, bodies: BodyBudget) -> bytes:
        length = self.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > limit_bytes:
            raise body_too_large(limit_bytes)
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected()
            part = message.get("body", b"")
            bodies.add(body_read, len(part))
            if body_read.size > limit_bytes:
                raise body_too_large(limit_bytes)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)

    def _hold(self, status: int, headers: list[tuple[str, str]], parts: Sequence[bytes]) -> None:
        self._held = _head(status, headers), b"".join(parts)

    @property
    def _is_held(self) -> bool:
        return self._held is not None

    async def send_whole(
        self, status: int, headers: Iterable[tuple[str, str]], data: bytes
    ) -> None:
        self._held = None
        await self.send(_head(status, headers))
        await self.send({"type": "http.response.body", "body": data})

    def post(self, data: bytes, is_last: bool = False) -> Awaitable[None] | None:
        return begin_wait(self._send_part(data, is_last))

    async def _send_part(self, data: bytes, is_last: bool) -> None:
        if self._held is not None:
            (head, first), self._held = self._held, None
            data = first + data
            await self.send(head)
        message = {"type": "http.response.body", "body": data, "more_body": not is_last}
        await self.send(message)

    async def until_left(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _head(status: int, headers: Iterable[tuple[str, str]]) -> Message:
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": encoded}
