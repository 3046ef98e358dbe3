"""`AsyncClient`: the options of a client, and the streams that it opens.

One client talks to one server over one transport. Many tasks may use it at the same time, on more
than one event loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypedDict

from torvyn._io.closing import AsyncCloseOnExit
from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.failures import ServerError
from torvyn.client.resumable_stream import ResumableStream
from torvyn.client.retry_policy import RetryPolicy
from torvyn.client.stream import AsyncStream
from torvyn.client.transports import websocket
from torvyn.client.transports.channel_pool import ChannelPool
from torvyn.client.transports.http import HttpClient
from torvyn.client.transports.sse import SseTransport
from torvyn.client.transports.transport import StreamRequest, Transport
from torvyn.errors import TorvynError

TransportName = Literal["sse", "websocket", "grpc"]
Message = Mapping[str, Any]
Prompt = str | Sequence[Message]


class Options(TypedDict, total=False):
    """The options of a client; `AsyncClient` describes them."""

    key: str | None
    transport: TransportName
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


class AsyncClient(AsyncCloseOnExit):
    """A client of the server at `url`, such as `http://127.0.0.1:8080`."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        transport: TransportName = "sse",
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
        """`transport` is `sse` (one connection per stream), or `websocket` or `grpc` (one
        connection for all streams, which can then be updated as well). For gRPC, `url` names the
        server's gRPC port.

        `key` is the API key; without it, the client uses `TORVYN_KEY`. `ca` is a file or folder of
        certificates to trust; `verify=False` trusts any certificate.

        A connection counts as lost if nothing arrives for `idle_timeout_s`, not even a heartbeat.
        If the server is too busy, the request is sent again up to `retries` times within
        `retry_for_s`. A stateful stream that loses its connection is resumed up to `resumes` times
        in a row within `resume_for_s`; `on_reconnect(tries, error)` is called before each resume.
        """
        if min(connect_timeout_s, idle_timeout_s) <= 0:
            raise failures.bad_option("`connect_timeout_s` and `idle_timeout_s` must be above 0")
        if min(retries, resumes, retry_for_s, resume_for_s) < 0:
            names = "`retries`, `resumes`, `retry_for_s` and `resume_for_s`"
            raise failures.bad_option(f"{names} must be 0 or more")
        self._address = Address.parse(
            url,
            key,
            headers or {},
            verify=verify,
            ca=ca,
            connect_timeout_s=connect_timeout_s,
            idle_timeout_s=idle_timeout_s,
        )
        self._http = None if transport == "grpc" else HttpClient(self._address)
        self._jitter = validate_jitter(jitter)
        self._policy = RetryPolicy(retries, retry_for_s, resumes, resume_for_s, on_reconnect)
        self._transport = _open_transport(transport, self._http, self._address)
        self._is_closed = False

    @property
    def url(self) -> str:
        """The server's address."""
        return self._address.url

    # Streams

    def stream(
        self,
        prompt: Prompt,
        *,
        flow: str | None = None,
        stateful: bool = False,
        jitter: float | None = None,
        **options: Any,
    ) -> AsyncStream:
        """The answer to a prompt or to a list of messages. `options` are fields of the request:
        `max_tokens`, `temperature`, `stop` and so on; those that are None are left out.

        With `stateful`, the stream survives a lost connection and is resumed. `jitter` spreads
        bursts of text evenly and delays text by at most that many seconds.
        """
        body: dict[str, Any] = (
            {"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}
        )
        fields = {"flow": flow, "stateful": stateful or None, **options}
        body |= {name: value for name, value in fields.items() if value is not None}
        choices = body.get("n", 1)
        return self._stream(
            StreamRequest("start", body=body),
            is_stateful=stateful,
            jitter=jitter,
            choices=choices if isinstance(choices, int) else 1,
        )

    def resume(
        self, id: str, after: str | int | None = None, *, jitter: float | None = None
    ) -> AsyncStream:
        """Reads a stateful stream from the frame that follows `after`, a stream's `last_id`, or
        from the start. A client that reads the stream elsewhere is disconnected."""
        return self._stream(
            StreamRequest("resume", id=id, after=after), is_stateful=True, jitter=jitter
        )

    def observe(self, id: str, *, jitter: float | None = None) -> AsyncStream:
        """Reads along with another client's stream, from now on. An observer neither slows nor ends
        the stream; frames that it misses are reported by a `MetaFrame` with `skipped`."""
        return self._stream(StreamRequest("observe", id=id), is_stateful=False, jitter=jitter)

    def _stream(
        self, request: StreamRequest, *, is_stateful: bool, jitter: float | None, choices: int = 1
    ) -> AsyncStream:
        if self._is_closed:
            raise failures.client_closed()
        stream = ResumableStream(
            self._transport, request, self._policy, self._address.name, is_resumable=is_stateful
        )
        return AsyncStream(
            stream,
            self._transport,
            choices=choices,
            is_stateful=is_stateful,
            jitter=self._jitter if jitter is None else validate_jitter(jitter),
            secret=self._address.key,
        )

    # The server

    async def flows(self) -> dict[str, Any]:
        """The server's flows and the answers that are running, from `/flows`."""
        return _require_object(await self._request("/flows"), self._address.name)

    async def pools(self) -> dict[str, Any]:
        """The pools of the server's flows and their members, from `/pools`."""
        body = _require_object(await self._request("/pools"), self._address.name)
        return _require_object(body.get("pools"), self._address.name)

    async def change_pool(self, action: str, **fields: str) -> dict[str, Any]:
        """Changes the members of a pool: `change_pool("drain", member="gpu1:8000")`. Returns the
        state of the pool."""
        fields = {"action": action, **fields}
        return _require_object(await self._request("/pools", fields), self._address.name)

    async def models(self) -> list[str]:
        """The names that you can pass as `flow`."""
        body = _require_object(await self._request("/v1/models"), self._address.name)
        return [str(model.get("id")) for model in body.get("data", []) if isinstance(model, dict)]

    async def health(self) -> str:
        """The server's status, such as `ready` or `shutting down`. Raises if the server cannot be
        reached."""
        if self._http is None:
            from torvyn.client.transports import grpc

            return await grpc.health(self._address)
        try:
            body = await self._request("/readyz")
        except ServerError as error:
            if error.status != 503:
                raise
            return "shutting down"
        return str(_require_object(body, self._address.name).get("status", ""))

    async def _request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        if self._is_closed:
            raise failures.client_closed()
        if self._http is None:
            hint = "connect to the server's HTTP port"
            raise failures.unsupported(f"`{path}`", "over gRPC", hint)
        return await self._http.request_json("GET" if body is None else "POST", path, body)

    async def aclose(self) -> None:
        """Closes the connections, and the streams that are still open."""
        self._is_closed = True
        await self._transport.aclose()
        if self._http is not None:
            await self._http.aclose()


def validate_jitter(jitter: float | None) -> float | None:
    """None if text is not delayed."""
    if jitter is not None and not 0 <= jitter <= 10:
        message = f"`jitter` must be between 0 and 10 seconds, not {jitter}"
        raise failures.bad_option(message, "a typical value is 0.12")
    return jitter or None


def _open_transport(name: str, http: HttpClient | None, address: Address) -> Transport:
    if http is None:
        from torvyn.client.transports import grpc

        return ChannelPool("gRPC", partial(grpc.connect, address), address)
    if name == "sse":
        return SseTransport(http, address.idle_timeout_s)
    if name == "websocket":
        return ChannelPool("WebSocket", partial(websocket.connect, http), address)
    message = f"`transport` must be `sse`, `websocket` or `grpc`, not {repr(name)[:32]}"
    raise failures.bad_option(message)


def _require_object(body: Any, server: str) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise failures.invalid_response("a response that is not a JSON object", server)
    return body
