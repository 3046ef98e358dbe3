"""Requests to one server. Follows no redirects, so that a key goes
nowhere else, and never repeats the key."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.transports.transport import Cut
from torvyn.concurrency.connection_pool import ConnectionPool, require_aiohttp
from torvyn.errors import Unavailable
from torvyn.protocol import traceparent

if TYPE_CHECKING:
    import aiohttp

_MOST_REFUSAL: Final = 64 * 1024
_MOST_BODY: Final = 16 * 1024 * 1024


class Http:
    """`open` gives an answer that streams, `ask` one that is read."""

    def __init__(self, address: Address) -> None:
        require_aiohttp("client.package-missing", "a client", "client")
        self.url = address.url
        self.where = address.where
        self.key = address.key
        self.headers = address.headers
        self._connect_s = address.connect_timeout_s
        self._answer_s = address.idle_timeout_s
        traces = [_reuse_noted()]
        self._pool = ConnectionPool(self._connect_s, address.tls(), trace_configs=traces)

    async def session(self) -> aiohttp.ClientSession:
        return await self._pool.session()

    async def open(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> aiohttp.ClientResponse:
        """An answer with status 200 to 204; any other is raised."""
        import aiohttp

        given = {**self.headers, **(headers or {})}
        if (here := traceparent.CURRENT.get()) is not None:
            given.setdefault("traceparent", here.traceparent)
        data = None if body is None else encoded(body)
        if data is not None:
            given["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(self._connect_s + self._answer_s):
                response = await self._sent(method, self.url + path, data, given)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise self.unreachable(error) from error
        except TimeoutError:
            raise Cut(f"it did not answer within {self._answer_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            said = failures.shown(str(error), self.key) or type(error).__name__
            raise Cut(f"it did not answer ({said})") from error
        if response.status not in (200, 202, 204):
            raise await self._refusal(response)
        return response

    async def _sent(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """What is answered. A connection that was kept may have been closed meanwhile: then it is
        another's turn, until there is a new one."""
        import aiohttp

        session = await self._pool.session()
        while True:
            traceparent = SimpleNamespace(is_reused=False)
            try:
                return await session.request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    trace_request_ctx=traceparent,
                )
            except aiohttp.ClientConnectionError:
                if not traceparent.is_reused:
                    raise

    async def ask(self, method: str, path: str) -> Any:
        """The JSON of an answer, whose size and time are limited."""
        import aiohttp

        try:
            async with asyncio.timeout(self._connect_s + self._answer_s):
                response = await self.open(method, path)
                async with response:
                    data = await read_at_most(response.content, _MOST_BODY)
            return json.loads(data) if data else None
        except (Cut, aiohttp.ClientError, OSError) as error:
            said = failures.shown(str(error), self.key) or type(error).__name__
            raise failures.cut(said, self.where) from error
        except (ValueError, RecursionError):
            raise failures.garbage("an answer that is no JSON", self.where) from None

    def unreachable(self, error: Exception) -> Unavailable:
        return failures.unreachable(_why(error), self.where)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _refusal(self, response: aiohttp.ClientResponse) -> failures.ServerError:
        try:
            async with asyncio.timeout(self._answer_s):
                data = await response.content.read(_MOST_REFUSAL)
        except Exception:
            data = b""
        finally:
            response.close()
        body = data.decode(errors="replace")
        return failures.refused(response.status, body, response.headers, self.key, self.where)


def _why(error: Exception) -> str:
    """What kept a connection from being made, in the system's words."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({error.certificate_error})"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return str(cause) or type(cause).__name__


def _reuse_noted() -> aiohttp.TraceConfig:
    """Says of each request whether its connection was used before."""
    import aiohttp

    async def note(session: Any, context: Any, params: Any) -> None:
        context.trace_request_ctx.is_reused = True

    traceparent = aiohttp.TraceConfig()
    traceparent.on_connection_reuseconn.append(note)
    return traceparent


async def read_at_most(content: aiohttp.StreamReader, limit: int) -> bytes:
    data = bytearray()
    async for part in content.iter_any():
        data += part
        if len(data) > limit:
            raise ValueError("too large")
    return bytes(data)


def encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise failures.bad_option(f"the request cannot be written as JSON: {error}") from None
