"""The SSE transport: server-sent events over HTTP, one connection per stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from torvyn.client import failures
from torvyn.client.failures import ServerError
from torvyn.client.transports.http import HttpClient
from torvyn.client.transports.transport import ConnectionLost, StreamRequest
from torvyn.errors import InvalidInput
from torvyn.protocol.decoder import Decoder
from torvyn.protocol.frames import Frame, HeartbeatFrame

if TYPE_CHECKING:
    import aiohttp

PATH: Final = "/v1/streams"
# Without compression, so that no proxy buffers text in order to compress it.
_HEADERS: Final = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


class SseTransport:
    name = "SSE"

    def __init__(self, http: HttpClient, idle_timeout_s: float) -> None:
        self._http = http
        self._idle_s = idle_timeout_s

    async def open(self, request: StreamRequest) -> EventReader | None:
        if request.kind == "start":
            response = await self._http.open("POST", PATH, request.body, _HEADERS)
        else:
            path, headers = _resume_request(request)
            response = await self._http.open("GET", path, headers={**_HEADERS, **headers})
        if response.status == 204:
            response.release()
            return None
        if response.content_type != "text/event-stream":
            response.close()
            what = f"`{response.content_type}` instead of `text/event-stream`"
            raise failures.invalid_response(what, self._http.server)
        return EventReader(response, self._idle_s, self._http.server)

    async def end(self, id: str, *, cancel: bool) -> bool:
        try:
            path = stream_path(id) + ("?cancel=1" if cancel else "")
            body = await self._http.request_json("DELETE", path)
        except ServerError as error:
            if error.status == 404:
                return False
            raise
        # The server still had the frames of a stream that had ended.
        return not (isinstance(body, dict) and body.get("forgotten"))

    async def update(self, id: str, changes: Mapping[str, Any]) -> None:
        hint = 'create the client with `transport="websocket"`'
        raise failures.unsupported("`update`", "over SSE", hint)

    async def aclose(self) -> None:
        """Nothing to close: the client owns the connections."""


def stream_path(id: str) -> str:
    return f"{PATH}/{quote(id, safe='')}"


def _resume_request(request: StreamRequest) -> tuple[str, dict[str, str]]:
    """The path of a running stream, and the headers that say where to continue."""
    query = {"observe": "1"} if request.kind == "observe" else {}
    headers = {}
    if isinstance(request.after, str):
        headers["Last-Event-ID"] = request.after
    elif request.after is not None:
        query["after"] = str(request.after)
    path = stream_path(request.id or "")
    return (f"{path}?{urlencode(query)}" if query else path), headers


class EventReader:
    """The frames of one HTTP response."""

    def __init__(
        self, response: aiohttp.ClientResponse, idle_timeout_s: float, server: str
    ) -> None:
        self._response = response
        self._idle_s = idle_timeout_s
        self._server = server
        self._decoder = Decoder("torvyn", "sse")
        self._is_at_line = True

    @property
    def epoch(self) -> str | None:
        return self._decoder.last_event_id.rpartition("-")[0] or None

    async def read(self) -> Sequence[Frame]:
        data = await self._data()
        try:
            frames = self._decoder.put(data)
        except InvalidInput as error:
            what = f"an event that is not a valid frame: {error.message}"
            raise failures.invalid_response(what, self._server) from error
        return [*self._heartbeats(data), *frames]

    def close(self) -> None:
        # A connection that was read to its end is reused for the next request.
        response = self._response
        response.release() if response.content.at_eof() else response.close()

    async def _data(self) -> bytes:
        import aiohttp

        try:
            async with asyncio.timeout(self._idle_s):
                data = await self._response.content.readany()
        except TimeoutError:
            why = f"nothing arrived for {self._idle_s:g} s, not even a heartbeat"
            raise ConnectionLost(why) from None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(failures.reason(error)) from error
        if not data:
            raise ConnectionLost("the connection ended")
        return data

    def _heartbeats(self, data: bytes) -> list[Frame]:
        """Comments are not events: lines that begin with a colon."""
        count = data.count(b"\n:") + (self._is_at_line and data.startswith(b":"))
        self._is_at_line = data.endswith(b"\n")
        return [HeartbeatFrame()] * count
