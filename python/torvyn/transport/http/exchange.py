"""One HTTP request and its response, over ASGI.

Reads a body within its limits, sends whole responses, and has the id that responses and logs share.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qsl

from torvyn.engine.request import new_id
from torvyn.protocol import traceparent
from torvyn.transport.access.caller import ANYONE
from torvyn.transport.access.key_record import PREFIX
from torvyn.transport.http.body_limit import BodyBudget, BodyRead
from torvyn.transport.rejection import Rejection
from torvyn.transport.settings import ServerSettings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_DEPTH: Final = 64
"""Levels of nesting in a body. The schemas of tools are nested, but not this deep."""
ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
JSON: Final = "application/json"


class HttpExchange:
    __slots__ = (
        "caller",
        "headers",
        "id",
        "method",
        "path",
        "peer",
        "query",
        "receive",
        "root",
        "send",
        "status",
        "summary",
        "trace",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, sample_rate: float = 0.0
    ) -> None:
        self.method: str = scope["method"]
        path: str = scope["path"]
        self.root: str = scope.get("root_path", "")
        """The path at which another program mounts the application."""
        self.path = path.removeprefix(self.root) or "/"
        self.headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")
            # A repeated header is one list: a second `Host` does not replace the first.
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self.id = request_id(self.headers)
        """In responses and logs; a client may choose it."""
        self.query = dict(parse_qsl(bytes(scope.get("query_string", b"")).decode("latin-1")))
        self.trace = traceparent.begin(self.headers.get("traceparent"), sample_rate)
        self.caller = ANYONE
        peer = scope.get("client")
        self.peer = str(peer[0]) if peer else None
        """The address of the client, if known."""
        self.receive = receive
        self.send = send
        self.status = 0
        """Of the response; 0 before it begins."""
        self.summary: Mapping[str, Any] = {}
        """Of the answer, for the request log."""

    async def body(self, settings: ServerSettings, bodies: BodyBudget) -> dict[str, Any]:
        """The body, a JSON object. Raises a rejection."""
        try:
            async with asyncio.timeout(settings.body_timeout_s) as timeout:
                due_s = timeout.when()
                body_read = bodies.open(timeout)
                try:
                    data = await self._read(settings.max_body_bytes, body_read, bodies)
                finally:
                    bodies.close(body_read)
        except TimeoutError:
            message = f"the request body was not received within {settings.body_timeout_s:g} s"
            if timeout.when() != due_s:
                message = "the server received too many slow request bodies at once"
            raise Rejection(408, "transport.body-slow", message, headers=_CLOSE) from None
        return parse_object(data)

    async def _read(self, limit_bytes: int, body_read: BodyRead, bodies: BodyBudget) -> bytes:
        length = self.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > limit_bytes:
            raise _too_large(limit_bytes)
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected()
            part = message.get("body", b"")
            bodies.add(body_read, len(part))
            if body_read.size > limit_bytes:
                raise _too_large(limit_bytes)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)

    async def until_left(self) -> None:
        """Returns when the client has disconnected."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        encoded.append((b"x-request-id", self.id.encode()))
        encoded.append((b"traceparent", self.trace.traceparent.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})

    async def answer(
        self,
        body: bytes | str | Mapping[str, Any],
        status: int = 200,
        kind: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a whole response."""
        if isinstance(body, Mapping):
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        data = body.encode(errors="replace") if isinstance(body, str) else body
        length = {"content-type": kind, "content-length": str(len(data))}
        await self.begin(status, {**length, "cache-control": "no-store", **(headers or {})})
        await self.send({"type": "http.response.body", "body": data})


def request_id(headers: Mapping[str, str]) -> str:
    """The id that the client chose, or a new one. Logs contain it, so it must not be an API key."""
    id = headers.get("x-request-id", "")
    return id if ID.fullmatch(id) and PREFIX not in id else new_id()


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete. Raised as a new object each time: an
    exception keeps its frames, and with them the body."""


_CLOSE: Final = {"connection": "close"}
_EXAMPLE: Final = 'for example {"prompt": "Hello"}'


def parse_object(data: bytes, what: str = "body") -> dict[str, Any]:
    """The JSON object in the bytes. Raises a rejection."""
    value = parse_json(data, what)
    if not isinstance(value, dict):
        message = f"the {what} is a JSON {type(value).__name__}, not an object"
        raise Rejection(400, "transport.bad-json", message, hint=_EXAMPLE)
    return value


def parse_json(data: bytes, what: str) -> Any:
    """The JSON value in the bytes, of limited depth. Raises a rejection."""
    try:
        value = json.loads(data.decode(), parse_constant=_reject_constant)
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as error:
        where = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        message = f"the {what} is not valid JSON{where}"
        raise Rejection(400, "transport.bad-json", message, hint=_EXAMPLE) from None
    if _is_deeper_than(MAX_DEPTH, value):
        raise _too_deep(what)
    if _SURROGATE.search(data) is not None and not _is_encodable(value):
        message = f"the {what} contains half of a surrogate pair"
        raise Rejection(400, "transport.bad-json", message)
    return value


def _is_encodable(value: Any) -> bool:
    """Whether all of its strings are valid: JSON's escapes can contain half a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_deeper_than(limit: int, value: Any) -> bool:
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return any(isinstance(item, (dict, list)) for item in level)


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _too_deep(what: str) -> Rejection:
    message = f"the {what} has more than {MAX_DEPTH} levels of nesting"
    return Rejection(400, "transport.json-too-deep", message)


def _too_large(limit_bytes: int) -> Rejection:
    return Rejection(
        413,
        "transport.body-too-large",
        f"the request body is larger than {limit_bytes} bytes",
        hint="`max_body` of `[serve]` is the limit",
        headers=_CLOSE,
    )
