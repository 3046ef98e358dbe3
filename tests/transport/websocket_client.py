"""A WebSocket client over ASGI: it records what is sent, can block sending, and can disconnect. And
one over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from asgi_client import PATIENCE_S

from torvyn.serve import Application

Said = dict[str, Any]
START: Said = {"type": "start", "stream_id": "s", "prompt": "Hi"}


class Socket:
    """`async with` it: a socket that was accepted, and is left at the end."""

    def __init__(
        self, application: Application, headers: Mapping[str, str] | None = None, **scope: Any
    ) -> None:
        given = {"host": "127.0.0.1:8080", **(headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in given.items()]
        self._scope = {"type": "websocket", "path": "/v1/ws", "headers": pairs, **scope}
        self._application = application
        self._incoming: asyncio.Queue[Said] = asyncio.Queue()
        self._incoming.put_nowait({"type": "websocket.connect"})
        self._changed = asyncio.Condition()
        self.sent: list[Said] = []
        """What the application sent, as a server below it gets it."""
        self.got: list[Said] = []
        """The messages of it, as a client reads them."""
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def __aenter__(self) -> Socket:
        call = self._application(self._scope, self._incoming.get, self._send)
        self.task = asyncio.ensure_future(call)
        await self.until(lambda: self.sent)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.leave()
        self.may_send.set()
        await asyncio.wait_for(self.task, PATIENCE_S)

    def say(self, message: Said | None = None, **more: Any) -> None:
        self.say_raw(json.dumps({**(message or {}), **more}))

    def say_raw(self, text: str) -> None:
        self._incoming.put_nowait({"type": "websocket.receive", "text": text})

    def say_bytes(self, data: bytes) -> None:
        self._incoming.put_nowait({"type": "websocket.receive", "bytes": data})

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect"})

    async def until(self, condition: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            return await self._changed.wait_for(condition)

    async def until_got(self, kind: str, stream_id: str | None = None) -> Said:
        """The first message of that type, of that stream."""

        seen = 0

        def found() -> Said | None:
            nonlocal seen
            while seen < len(self.got):
                said = self.got[seen]
                seen += 1
                if said["type"] == kind and stream_id in (None, said.get("stream_id")):
                    return said
            return None

        message: Said = await self.until(found)
        return message

    async def _send(self, message: Said) -> None:
        if not self.may_send.is_set():
            await self.may_send.wait()
        async with self._changed:
            self.sent.append(message)
            if message["type"] == "websocket.send":
                self.got.append(json.loads(message["text"]))
            self._changed.notify_all()


def text_of(got: list[Said], stream_id: str = "s") -> str:
    deltas = [m for m in got if m["type"] == "delta" and m.get("stream_id") == stream_id]
    return "".join(delta["text"] for delta in deltas)


class Speaker:
    """A real client, message by message."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    def say(self, message: Said | None = None, **more: Any) -> None:
        self.socket.send(json.dumps({**(message or {}), **more}))

    def hear(self) -> Said:
        said: Said = json.loads(self.socket.recv(PATIENCE_S))
        return said

    def hear_until(self, kind: str, stream_id: str | None = None) -> list[Said]:
        """All up to the first message of that type."""
        got = [self.hear()]
        while got[-1]["type"] != kind or stream_id not in (None, got[-1].get("stream_id")):
            got.append(self.hear())
        return got


@contextmanager
def speaking(url: str, **options: Any) -> Iterator[Speaker]:
    from websockets.sync.client import connect

    address = url.replace("http", "ws", 1) + "/v1/ws"
    with connect(address, proxy=None, **{"ping_interval": None, **options}) as socket:
        yield Speaker(socket)
