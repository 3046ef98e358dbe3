"""The client for coroutines: what it is told once, and the streams it opens.

One client is one server, whatever the transport. It may be used by many tasks at a time, and on
more than one event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypedDict

from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.failures import ServerError
from torvyn.client.resumable_stream import Course, Policy
from torvyn.client.stream import AsyncStream
from torvyn.client.transports import websocket
from torvyn.client.transports.channel_pool import Channels
from torvyn.client.transports.http import Http
from torvyn.client.transports.sse import Sse
from torvyn.client.transports.transport import Opening, Wire
from torvyn.concurrency.context_managers import AsyncClosing
from torvyn.errors import TorvynError

Transport = Literal["sse", "websocket", "grpc"]
Message = Mapping[str, Any]
Asked = str | Sequence[Message]


class Options(TypedDict, total=False):
    """What a client may be told besides the address; `AsyncClient` says what it means."""

    key: str | None
    transport: Transport
    verify: bool
    ca: str | os.PathLike[str] | None
    headers: Mapping[str, str] | None
    jitter: float | None
    connect_timeout_s: float
    idle_timeout_s: float
    retries: int
    retry_for_s: float
    resumes: int
    resume_for_s: float
    on_reconnect: Callable[[int, TorvynError], None] | None


class AsyncClient(AsyncClosing):
    """A server at `url`, such as `http://127.0.0.1:8080`."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        transport: Transport = "sse",
        verify: bool = True,
        ca: str | os.PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        jitter: float | None = None,
        connect_timeout_s: float = 10.0,
        idle_timeout_s: float = 45.0,
        retries: int = 3,
        retry_for_s: float = 30.0,
        resumes: int = 20,
        resume_for_s: float = 120.0,
        on_reconnect: Callable[[int, TorvynError], None] | None = None,
    ) -> None:
        """`transport` is how streams travel: `sse`, a connection for each; `websocket` or `grpc`,
        one for all, on which they can also be updated. For gRPC the address is its port's.

        `key` may stand in `TORVYN_KEY`. `ca` is a file or folder of certificates to trust;
        `verify=False` trusts any.

        A connection on which nothing arrives for `idle_timeout_s`, not even a heartbeat, counts as
        cut. A request that the server is too busy for is sent again `retries` times, within
        `retry_for_s`. A stateful stream that is cut is resumed, `resumes` times in a row, within
        `resume_for_s`; `on_reconnect(tries, why)` is called before each.
        """
        limits = (connect_timeout_s, idle_timeout_s)
        if min(limits) <= 0 or min(retries, resumes, retry_for_s, resume_for_s) < 0:
            raise failures.bad_option("time limits are above 0, and counts are 0 or more")
        self._address = Address.of(
            url,
            key,
            headers or {},
            verify=verify,
            ca=ca,
            connect_timeout_s=connect_timeout_s,
            idle_timeout_s=idle_timeout_s,
        )
        self._http = None if transport == "grpc" else Http(self._address)
        self._jitter = checked_jitter(jitter)
        self._policy = Policy(retries, retry_for_s, resumes, resume_for_s, on_reconnect)
        self._wire = _wire(transport, self._http, self._address)
        self._is_closed = False

    @property
    def url(self) -> str:
        """The server's address."""
        return self._address.url

    # Streams

    def stream(
        self,
        asked: Asked,
        *,
        flow: str | None = None,
        stateful: bool = False,
        jitter: float | None = None,
        **options: Any,
    ) -> AsyncStream:
        """An answer to a prompt, or to messages. `options` are those of a request: `max_tokens`,
        `temperature`, `stop` and so on; one that is None is left out.

        `stateful` keeps it at the server when the connection is lost, and resumes it. `jitter`
        lets its text out evenly, so many seconds late at most.
        """
        body: dict[str, Any] = {"prompt" if isinstance(asked, str) else "messages": asked}
        if not isinstance(asked, str):
            body["messages"] = list(asked)
        given = {"flow": flow, "stateful": stateful or None, **options}
        body |= {name: value for name, value in given.items() if value is not None}
        choices = body.get("n", 1)
        return self._stream(
            Opening("ask", body=body),
            is_kept=stateful,
            jitter=jitter,
            choices=choices if isinstance(choices, int) else 1,
        )

    def resume(
        self, id: str, after: str | int | None = None, *, jitter: float | None = None
    ) -> AsyncStream:
        """A stateful stream, from the frame after `after` on: a stream's `last_id`. Without it,
        from the start. Whoever reads it elsewhere is told so, and loses it."""
        return self._stream(Opening("resume", id=id, after=after), is_kept=True, jitter=jitter)

    def observe(self, id: str, *, jitter: float | None = None) -> AsyncStream:
        """Another's stream as it goes on. Who watches slows nothing and ends nothing; what was
        missed is a `MetaFrame` with `skipped`."""
        return self._stream(Opening("observe", id=id), is_kept=False, jitter=jitter)

    def _stream(
        self, opening: Opening, *, is_kept: bool, jitter: float | None, choices: int = 1
    ) -> AsyncStream:
        if self._is_closed:
            raise failures.closed()
        course = Course(
            self._wire, opening, self._policy, self._address.where, is_resumable=is_kept
        )
        return AsyncStream(
            course,
            self._wire,
            choices=choices,
            is_kept=is_kept,
            jitter=self._jitter if jitter is None else checked_jitter(jitter),
            secret=self._address.key,
        )

    # About the server

    async def flows(self) -> dict[str, Any]:
        """What the server serves and what runs there, as `/flows` tells it."""
        return _object(await self._ask("/flows"), self._address.where)

    async def models(self) -> list[str]:
        """The names that a request may give as `flow`."""
        found = _object(await self._ask("/v1/models"), self._address.where).get("data", [])
        return [str(model.get("id")) for model in found if isinstance(model, dict)]

    async def health(self) -> str:
        """`ready`, or what else the server says of itself, such as `shutting down`. Raises when
        there is no server."""
        if self._http is None:
            from torvyn.client.transports import grpc

            return await grpc.health(self._address)
        try:
            answer = await self._ask("/readyz")
        except ServerError as error:
            if error.status != 503:
                raise
            return "shutting down"
        return str(_object(answer, self._address.where).get("status", ""))

    async def _ask(self, path: str) -> Any:
        if self._is_closed:
            raise failures.closed()
        if self._http is None:
            hint = "ask the port that the server has for HTTP"
            raise failures.unsupported(f"`{path}`", "over gRPC", hint)
        return await self._http.ask("GET", path)

    # Its end

    async def aclose(self) -> None:
        """Closes its connections, and with them the streams that are still open."""
        self._is_closed = True
        await self._wire.aclose()
        if self._http is not None:
            await self._http.aclose()


def checked_jitter(jitter: float | None) -> float | None:
    """None when text should not wait."""
    if jitter is not None and not 0 <= jitter <= 10:
        raise failures.bad_option(f"`jitter` is 0 to 10 seconds, not {jitter}", "such as 0.12")
    return jitter or None


def _wire(transport: str, http: Http | None, address: Address) -> Wire:
    if http is None:
        from torvyn.client.transports import grpc

        return Channels("gRPC", partial(grpc.connect, address), address)
    if transport == "sse":
        return Sse(http, address.idle_timeout_s)
    if transport == "websocket":
        return Channels("WebSocket", partial(websocket.connect, http), address)
    shown = repr(transport)[:32]
    raise failures.bad_option(f"`transport` is `sse`, `websocket` or `grpc`, not {shown}")


def _object(answer: Any, where: str) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise failures.garbage("an answer that is no object", where)
    return answer
