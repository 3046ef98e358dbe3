"""A channel's connection over a WebSocket: one JSON object per message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from torvyn.client import failures
from torvyn.client.failures import ServerError
from torvyn.client.transports.channel import ChannelConnection, ServerMessage
from torvyn.client.transports.http import HttpClient, encode_json
from torvyn.client.transports.transport import ConnectionLost
from torvyn.errors import InvalidInput
from torvyn.protocol.decoder import frame_from

if TYPE_CHECKING:
    import aiohttp

PATH: Final = "/v1/ws"
_CLOSE_S: Final = 2.0
_MESSAGE_LIMIT_BYTES: Final = 8 << 20


async def connect(http: HttpClient) -> WebSocketConnection:
    import aiohttp

    session = await http.session()
    try:
        socket = await session.ws_connect(
            http.url + PATH,
            headers=http.headers,
            protocols=("torvyn.v1",),
            max_msg_size=_MESSAGE_LIMIT_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
        )
    except aiohttp.WSServerHandshakeError as error:
        raise await _rejection(http, error.status) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise http.unreachable(error) from error
    except (aiohttp.ClientError, OSError) as error:
        raise ConnectionLost(failures.reason(error)) from error
    return WebSocketConnection(socket, http)


async def _rejection(http: HttpClient, status: int) -> ServerError:
    """A failed handshake has only a status; a plain request for the same path gets the reason."""
    try:
        await http.request_json("GET", PATH)
    except ServerError as error:
        if error.status == status:
            return error
    return failures.error_from_response(status, "", {}, http.key, http.server)


class WebSocketConnection(ChannelConnection):
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, http: HttpClient) -> None:
        self._socket = socket
        self._http = http

    async def send(self, record: dict[str, Any]) -> None:
        try:
            await self._socket.send_str(encode_json(record).decode())
        except OSError as error:
            raise ConnectionLost(failures.reason(error)) from error

    async def receive(self) -> ServerMessage:
        import aiohttp

        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return self._read(message.data)
        if message.type is aiohttp.WSMsgType.BINARY:
            raise failures.invalid_response("binary data", self._http.server)
        code, why = self._socket.close_code, failures.sanitize(str(message.extra or ""))
        raise ConnectionLost(f"the socket was closed with {code}" + (f": {why}" if why else ""))

    async def aclose(self) -> None:
        await self._socket.close()

    def _read(self, text: str) -> ServerMessage:
        try:
            record = json.loads(text)
            kind, stream_id = record["type"], record.get("stream_id")
            if kind == "pong":
                return ServerMessage("pong")
            if kind == "refused":
                rejection = failures.error_from_record(record, self._http.key)
                return ServerMessage("refused", stream_id, rejection=rejection)
            frame = frame_from(record, text)
            if frame is None:
                return ServerMessage("other")
            return ServerMessage("frame", stream_id, frame, record.get("epoch"))
        except (InvalidInput, ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"a message that is not valid: {error}"
            raise failures.invalid_response(what, self._http.server) from error
