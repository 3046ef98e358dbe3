"""A WebSocket as a link: JSON texts, one a message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from torvyn.client import failures
from torvyn.client.failures import ServerError
from torvyn.client.transports.channel import Link, Said
from torvyn.client.transports.http import Http, encoded
from torvyn.client.transports.transport import Cut
from torvyn.errors import InvalidInput
from torvyn.protocol.decoder import frame_from

if TYPE_CHECKING:
    import aiohttp

PATH: Final = "/v1/ws"
_CLOSE_S: Final = 2.0
_MOST_BYTES: Final = 8 << 20


async def connect(http: Http) -> WebSocket:
    import aiohttp

    session = await http.session()
    try:
        socket = await session.ws_connect(
            http.url + PATH,
            headers=http.headers,
            protocols=("torvyn.v1",),
            max_msg_size=_MOST_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
        )
    except aiohttp.WSServerHandshakeError as error:
        raise await _refusal(http, error.status) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise http.unreachable(error) from error
    except (aiohttp.ClientError, OSError) as error:
        raise Cut(failures.shown(str(error)) or type(error).__name__) from error
    return WebSocket(socket, http)


async def _refusal(http: Http, status: int) -> ServerError:
    """A handshake has a status alone; whoever asks for the same without a socket is told why."""
    try:
        await http.ask("GET", PATH)
    except ServerError as told:
        if told.status == status:
            return told
    return failures.refused(status, "", {}, http.key, http.where)


class WebSocket(Link):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, http: Http) -> None:
        self._socket = socket
        self._http = http

    async def send(self, record: dict[str, Any]) -> None:
        try:
            await self._socket.send_str(encoded(record).decode())
        except OSError as error:
            raise Cut(str(error) or type(error).__name__) from error

    async def receive(self) -> Said:
        import aiohttp

        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return self._read(message.data)
        if message.type is aiohttp.WSMsgType.BINARY:
            raise failures.garbage("binary data", self._http.where)
        code, words = self._socket.close_code, failures.shown(str(message.extra or ""))
        raise Cut(f"the socket was closed with {code}" + (f": {words}" if words else ""))

    async def aclose(self) -> None:
        await self._socket.close()

    def _read(self, text: str) -> Said:
        try:
            record = json.loads(text)
            kind, stream_id = record["type"], record.get("stream_id")
            if kind == "pong":
                return Said("pong")
            if kind == "refused":
                refusal = failures.refused_by(record, self._http.key)
                return Said("refused", stream_id, refusal=refusal)
            frame = frame_from(record, text)
            if frame is None:
                return Said("other")
            return Said("frame", stream_id, frame, record.get("epoch"))
        except (InvalidInput, ValueError, KeyError, TypeError, AttributeError) as error:
            raise failures.garbage(f"what is no message: {error}", self._http.where) from error
