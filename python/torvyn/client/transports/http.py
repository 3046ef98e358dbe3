"""HTTP requests to one server. Follows no redirects, so that the API key goes nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.http_client import ConnectionPool
from torvyn._io.packages import import_package
from torvyn.client import failures
from torvyn.client.address import Address
from torvyn.client.transports.transport import ConnectionLost
from torvyn.errors import Unavailable, os_reason
from torvyn.protocol import traceparent

if TYPE_CHECKING:
    import aiohttp

_ERROR_LIMIT_BYTES: Final = 64 * 1024
_BODY_LIMIT_BYTES: Final = 16 * 1024 * 1024


class HttpClient:
    """`open` returns a streaming response; `request_json` reads a whole one."""

    def __init__(self, address: Address) -> None:
        import_package("aiohttp", "a client", "client", "client.package-missing")
        self.url = address.url
        self.server = address.name
        self.key = address.key
        self.headers = address.headers
        self._connect_s = address.connect_timeout_s
        self._answer_s = address.idle_timeout_s
        self._pool = ConnectionPool(self._connect_s, address.tls(), trace_configs=[_trace_reuse()])

    async def session(self) -> aiohttp.ClientSession:
        return await self._pool.get()

    async def open(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> aiohttp.ClientResponse:
        """A response with status 200, 202 or 204; any other is raised."""
        import aiohttp

        headers = {**self.headers, **(headers or {})}
        if (here := traceparent.CURRENT.get()) is not None:
            headers.setdefault("traceparent", here.traceparent)
        data = None if body is None else encode_json(body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(self._connect_s + self._answer_s):
                response = await self._send(method, self.url + path, data, headers)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise self.unreachable(error) from error
        except TimeoutError:
            raise ConnectionLost(f"no answer within {self._answer_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLost(f"no answer ({failures.reason(error, self.key)})") from error
        if response.status not in (200, 202, 204):
            raise await self._rejection(response)
        return response

    async def _send(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Tries again while a pooled connection turns out to be closed, until one is new."""
        import aiohttp

        session = await self._pool.get()
        while True:
            connection = SimpleNamespace(is_reused=False)
            try:
                return await session.request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    trace_request_ctx=connection,
                )
            except aiohttp.ClientConnectionError:
                if not connection.is_reused:
                    raise

    async def request_json(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Any:
        """The JSON body of a response, limited in size and time."""
        import aiohttp

        try:
            async with asyncio.timeout(self._connect_s + self._answer_s):
                response = await self.open(method, path, body)
                async with response:
                    data = await _read_body(response.content)
            return json.loads(data) if data else None
        except (ConnectionLost, aiohttp.ClientError, OSError) as error:
            raise failures.connection_lost(failures.reason(error, self.key), self.server) from error
        except (ValueError, RecursionError):
            raise failures.invalid_response("a body that is not valid JSON", self.server) from None

    def unreachable(self, error: Exception) -> Unavailable:
        return failures.unreachable(_why(error), self.server)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _rejection(self, response: aiohttp.ClientResponse) -> failures.ServerError:
        try:
            async with asyncio.timeout(self._answer_s):
                data = await response.content.read(_ERROR_LIMIT_BYTES)
        except Exception:
            data = b""
        finally:
            response.close()
        body = data.decode(errors="replace")
        return failures.error_from_response(
            response.status, body, response.headers, self.key, self.server
        )


def _why(error: Exception) -> str:
    """The operating system's reason for a failed connection."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({error.certificate_error})"
    return os_reason(error)


def _trace_reuse() -> aiohttp.TraceConfig:
    """Marks each request whose connection comes from the pool."""
    import aiohttp

    async def note(session: Any, context: Any, params: Any) -> None:
        context.trace_request_ctx.is_reused = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


async def _read_body(content: aiohttp.StreamReader) -> bytes:
    data = bytearray()
    async for part in content.iter_any():
        data += part
        if len(data) > _BODY_LIMIT_BYTES:
            raise ValueError("too large")
    return bytes(data)


def encode_json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise failures.bad_option(f"the request cannot be encoded as JSON: {error}") from None
