"""A client that calls the application over ASGI: it records what is sent, can block sending, and
can disconnect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

from torvyn.engine import ChoiceStep, Engine, Request, Service, Step
from torvyn.protocol import Decoder, DeltaFrame
from torvyn.serve import Application, ServerSettings, app

PATIENCE_S = 20.0
PROMPT_BODY = {"prompt": "Hi"}


def serving(engine: Engine, *, deadline_s: float | None = None, **settings: Any) -> Application:
    """An application whose only flow is the engine, `chat`."""
    service = Service("chat", engine, deadline_s=deadline_s)
    return app({"chat": service}, ServerSettings(**{"first_byte_wait_s": 0.5, **settings}))


class Client:
    """One request. `await client` gives itself when the application has answered."""

    def __init__(
        self,
        application: Application,
        path: str = "/v1/streams",
        body: Any = None,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        self.data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.is_over = False
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.got = asyncio.Condition()
        self._left = asyncio.Event()
        self._is_read = False
        given = {"host": "127.0.0.1:8080", **(headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in given.items()]
        asked = urlencode(query or {}, encoding="latin-1").encode()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": pairs,
            "query_string": asked,
        }
        call = application(scope, self._receive, self._send)
        self.task = asyncio.ensure_future(call)

    def __await__(self) -> Any:
        yield from asyncio.wait_for(self.task, PATIENCE_S).__await__()
        return self

    def leave(self) -> None:
        self._left.set()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def frames(self, dialect: Any = "torvyn", framing: Any = "sse") -> list[Any]:
        decoder = Decoder(dialect, framing)
        return [*decoder.put(self.body), *decoder.finish()]

    def frames_start_id(self) -> str:
        """The id of the stream, while it runs."""
        return str(Decoder("torvyn", "sse").put(self.chunks[0])[0].id)

    async def until(self, count: int) -> None:
        """Until so many chunks were sent."""
        async with asyncio.timeout(PATIENCE_S), self.got:
            await self.got.wait_for(lambda: len(self.chunks) >= count)

    async def _receive(self) -> dict[str, Any]:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self.data, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {n.decode(): v.decode() for n, v in message["headers"]}
            return
        if not self.may_send.is_set():
            await self.may_send.wait()
        self.is_over = not message.get("more_body", False)
        async with self.got:
            self.chunks.append(message["body"])
            self.got.notify_all()


def texts(client: Client) -> list[str]:
    return [frame.text for frame in client.frames() if isinstance(frame, DeltaFrame)]


async def within(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE_S)


class Gated(Engine):
    """Says a token whenever the test lets it, and knows when it was left."""

    name = "gated"

    def __init__(self) -> None:
        super().__init__()
        self.tokens: asyncio.Queue[str | None] = asyncio.Queue()
        self.has_begun = asyncio.Event()
        self.was_left = asyncio.Event()

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self.has_begun.set()
        try:
            while (token := await self.tokens.get()) is not None:
                yield Step((ChoiceStep(0, text=token),))
            yield Step((ChoiceStep(0, tokens=0, finish_reason="stop"),))
        finally:
            self.was_left.set()


class Endless(Engine):
    """Says `x` as fast as it is read, for ever, and counts."""

    name = "endless"

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.was_left = asyncio.Event()

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        try:
            while True:
                self.made += 1
                yield Step((ChoiceStep(0, text="x"),))
        finally:
            self.was_left.set()
