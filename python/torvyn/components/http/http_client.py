"""One connection to an HTTP server, kept open between requests. Blocks; used by one thread."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torvyn.components.http.answer import Response

_MAX_ANSWER_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int
    target: str
    """The path and the query."""
    tls: ssl.SSLContext | None
    timeout_s: float

    @property
    def address(self) -> str:
        """Without the query, which may have a secret."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.host}:{self.port}{self.target.partition('?')[0]}"


class HttpClient:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: http.client.HTTPConnection | None = None

    _is_aborted = False

    def request(self, method: str, body: bytes, headers: Mapping[str, str]) -> Response:
        """Sends the request and reads the answer; raises `OSError` or `HTTPException`."""
        is_reused, self._is_aborted = self._connection is not None, False
        try:
            return self._exchange(method, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.close()
            if not is_reused or self._is_aborted:
                raise
        # The server has closed the connection since the last request: that says nothing about it.
        return self._exchange(method, body, headers)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Ends a request in progress. May be called from any thread."""
        self._is_aborted = True
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _exchange(self, method: str, body: bytes, headers: Mapping[str, str]) -> Response:
        connection = self._connection = self._connection or self._open()
        try:
            connection.request(method, self._server.target, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read(_MAX_ANSWER_BYTES)
            is_whole = not answer.read(1)
        except BaseException:
            self.close()
            raise
        if answer.will_close or not is_whole:
            self.close()
        retry_after, date = answer.getheader("Retry-After"), answer.getheader("Date")
        return Response(answer.status, retry_after, date, text.decode(errors="replace"))

    def _open(self) -> http.client.HTTPConnection:
        server = self._server
        if server.tls is None:
            return http.client.HTTPConnection(server.host, server.port, timeout=server.timeout_s)
        return http.client.HTTPSConnection(
            server.host, server.port, timeout=server.timeout_s, context=server.tls
        )
