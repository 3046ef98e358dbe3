"""Streams as events over HTTP: one request for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from torvyn.client import failures
from torvyn.client.failures import ServerError
from torvyn.client.transports.http import Http
from torvyn.client.transports.transport import Cut, Opening
from torvyn.errors import InvalidInput
from torvyn.protocol.decoder import Decoder
from torvyn.protocol.frames import Frame, HeartbeatFrame

if TYPE_CHECKING:
    import aiohttp

PATH: Final = "/v1/streams"
# Whatever lies between must not gather text in order to pack it.
_STREAMED: Final = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


class Sse:
    name = "SSE"

    def __init__(self, http: Http, idle_timeout_s: float) -> None:
        self._http = http
        self._idle_s = idle_timeout_s

    async def open(self, opening: Opening) -> Events | None:
        if opening.kind == "ask":
            response = await self._http.open("POST", PATH, opening.body, _STREAMED)
        else:
            path, headers = _read_by_id(opening)
            response = await self._http.open("GET", path, headers={**_STREAMED, **headers})
        if response.status == 204:
            response.release()
            return None
        if response.content_type != "text/event-stream":
            response.close()
            raise failures.garbage(f"`{response.content_type}`, no events", self._http.where)
        return Events(response, self._idle_s, self._http.where)

    async def end(self, id: str, *, cancel: bool) -> bool:
        try:
            said = await self._http.ask("DELETE", stream_path(id) + ("?cancel=1" if cancel else ""))
        except ServerError as error:
            if error.status == 404:
                return False
            raise
        # One that had ended was kept for who comes back.
        return not (isinstance(said, dict) and said.get("forgotten"))

    async def update(self, id: str, changes: Mapping[str, Any]) -> None:
        hint = 'make the client with `transport="websocket"`'
        raise failures.unsupported("`update`", "over SSE", hint)

    async def aclose(self) -> None:
        """The requests are not only its own."""


def stream_path(id: str) -> str:
    return f"{PATH}/{quote(id, safe='')}"


def _read_by_id(opening: Opening) -> tuple[str, dict[str, str]]:
    """The path of a stream that runs, and the headers that say from where."""
    query = {"observe": "1"} if opening.kind == "observe" else {}
    headers = {}
    if isinstance(opening.after, str):
        headers["Last-Event-ID"] = opening.after
    elif opening.after is not None:
        query["after"] = str(opening.after)
    path = stream_path(opening.id or "")
    return (f"{path}?{urlencode(query)}" if query else path), headers


class Events:
    """The frames of one HTTP answer."""

    def __init__(self, response: aiohttp.ClientResponse, idle_timeout_s: float, where: str) -> None:
        self._response = response
        self._idle_s = idle_timeout_s
        self._where = where
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
            raise failures.garbage(f"what is no frame: {error.message}", self._where) from error
        return [*self._heartbeats(data), *frames]

    def close(self) -> None:
        # A connection that was read to its end is kept for the next request.
        response = self._response
        response.release() if response.content.at_eof() else response.close()

    async def _data(self) -> bytes:
        import aiohttp

        try:
            async with asyncio.timeout(self._idle_s):
                data = await self._response.content.readany()
        except TimeoutError:
            raise Cut(f"it sent nothing for {self._idle_s:g} s, not even a heartbeat") from None
        except (aiohttp.ClientError, OSError) as error:
            said = failures.shown(str(error)) or type(error).__name__
            raise Cut(said) from error
        if not data:
            raise Cut("the connection ended")
        return data

    def _heartbeats(self, data: bytes) -> list[Frame]:
        """Comments are no events: lines with a colon at their beginning."""
        count = data.count(b"\n:") + (self._is_at_line and data.startswith(b":"))
        self._is_at_line = data.endswith(b"\n")
        return [HeartbeatFrame()] * count
