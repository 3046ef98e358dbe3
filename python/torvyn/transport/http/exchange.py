"""One request and its answer: the only place that knows how ASGI spells things.

Reads a body within limits, sends whole answers, and knows the id that answers and logs share.
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

MOST_DEPTH: Final = 64
"""Levels of a body. Tools have schemas, and schemas have levels; nobody needs more."""
ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
JSON: Final = "application/json"


class HttpExchange:
    """A request, and the ways to answer it."""

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
        """Where it is mounted in another program."""
        self.path = path.removeprefix(self.root) or "/"
        self.headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")
            # Said twice is one list: a second `Host` does not stand in for the first.
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self.id = chosen_id(self.headers)
        """What answers and logs call it; a client may choose it."""
        self.query = dict(parse_qsl(bytes(scope.get("query_string", b"")).decode("latin-1")))
        self.trace = traceparent.begin(self.headers.get("traceparent"), sample_rate)
        self.caller = ANYONE
        peer = scope.get("client")
        self.peer = str(peer[0]) if peer else None
        """The address it came from, as far as that is known."""
        self.receive = receive
        self.send = send
        self.status = 0
        """What was answered; 0 while nothing was."""
        self.summary: Mapping[str, Any] = {}
        """Of the answer of a flow, for the record of the request."""

    async def body(self, settings: ServerSettings, bodies: BodyBudget) -> dict[str, Any]:
        """The body, which is a JSON object."""
        try:
            async with asyncio.timeout(settings.body_timeout_s) as alarm:
                due_s = alarm.when()
                reading = bodies.open(alarm)
                try:
                    data = await self._read(settings.max_body_bytes, reading, bodies)
                finally:
                    bodies.close(reading)
        except TimeoutError:
            message = f"the body did not arrive within {settings.body_timeout_s:g} s"
            if alarm.when() != due_s:
                message = "the body did not arrive before there was room for it no more"
            raise Rejection(408, "transport.body-slow", message, headers=_CLOSE) from None
        return parsed(data)

    async def _read(self, limit: int, reading: BodyRead, bodies: BodyBudget) -> bytes:
        length = self.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected()
            part = message.get("body", b"")
            bodies.add(reading, len(part))
            if reading.size > limit:
                raise _too_large(limit)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)

    async def until_left(self) -> None:
        """Returns when the client has gone."""
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
        """A whole answer."""
        if isinstance(body, Mapping):
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        data = body.encode(errors="replace") if isinstance(body, str) else body
        length = {"content-type": kind, "content-length": str(len(data))}
        await self.begin(status, {**length, "cache-control": "no-store", **(headers or {})})
        await self.send({"type": "http.response.body", "body": data})


def chosen_id(headers: Mapping[str, str]) -> str:
    """The id that a client has chosen for its request, or a new one. It is written down, so it is
    no key."""
    given = headers.get("x-request-id", "")
    return given if ID.fullmatch(given) and PREFIX not in given else new_id()


class ClientDisconnected(Exception):
    """The client went away before it had asked. Each time a new one: an exception keeps what it
    passed through, a body among it."""


_CLOSE: Final = {"connection": "close"}


def parsed(data: bytes, what: str = "body") -> dict[str, Any]:
    """The object that the bytes are, or a rejection."""
    found = json_value(data, what)
    if not isinstance(found, dict):
        message = f"the {what} is a JSON {type(found).__name__}, not an object"
        raise Rejection(400, "transport.bad-json", message, hint='such as {"prompt": "Hello"}')
    return found


def json_value(data: bytes, what: str) -> Any:
    """What the bytes are in JSON, of limited depth, or a rejection."""
    try:
        found = json.loads(data.decode(), parse_constant=_no_number)
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as error:
        where = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        raise Rejection(
            400,
            "transport.bad-json",
            f"the {what} is no JSON{where}",
            hint='such as {"prompt": "Hello"}',
        ) from None
    if _depth_passes(found, MOST_DEPTH):
        raise _too_deep(what)
    if _HALF.search(data) is not None and not _is_text(found):
        raise Rejection(400, "transport.bad-json", f"the {what} has half of a surrogate pair in it")
    return found


def _is_text(value: Any) -> bool:
    """Whether all of its texts can be written: JSON's escapes can spell what is none."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth_passes(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for held in level:
            if isinstance(held, dict):
                inner += held.values()
            elif isinstance(held, list):
                inner += held
        if not inner:
            return False
        level = inner
    return any(isinstance(held, (dict, list)) for held in level)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _too_deep(what: str) -> Rejection:
    message = f"the {what} has more than {MOST_DEPTH} levels"
    return Rejection(400, "transport.json-too-deep", message)


def _too_large(limit: int) -> Rejection:
    return Rejection(
        413,
        "transport.body-too-large",
        f"the body is larger than {limit} bytes",
        hint="`max_body` of `[serve]` is the limit",
        headers=_CLOSE,
    )
