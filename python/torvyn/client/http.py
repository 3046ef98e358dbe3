"""Requests to one server: its address, the key, TLS. Follows no redirects, so that a key goes
nowhere else, and never repeats the key."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from torvyn.client import failure
from torvyn.client.wire import Cut
from torvyn.errors import Unavailable
from torvyn.loops.connections import Pool, require_aiohttp

if TYPE_CHECKING:
    import aiohttp

_MOST_REFUSAL: Final = 64 * 1024
_MOST_BODY: Final = 16 * 1024 * 1024


class Http:
    """`open` gives an answer that streams, `ask` one that is read."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        verify: bool = True,
        ca: str | os.PathLike[str] | None = None,
        connect_timeout_s: float = 10.0,
        answer_timeout_s: float = 45.0,
    ) -> None:
        require_aiohttp("client.package-missing", "a client", "client")
        self.url = checked_url(url)
        self.where = f"the server {urlsplit(self.url).netloc}"
        self.key = checked_key(key if key is not None else os.environ.get("TORVYN_KEY"))
        self.headers = dict(headers or {})
        if self.key:
            self.headers["Authorization"] = f"Bearer {self.key}"
        self.tls = _tls(verify, ca)
        self._connect_s = connect_timeout_s
        self._answer_s = answer_timeout_s
        self._pool = Pool(connect_timeout_s, self.tls, trace_configs=[_reuse_noted()])

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
            said = failure.shown(str(error), self.key) or type(error).__name__
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
            trace = SimpleNamespace(is_reused=False)
            try:
                return await session.request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    trace_request_ctx=trace,
                )
            except aiohttp.ClientConnectionError:
                if not trace.is_reused:
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
            said = failure.shown(str(error), self.key) or type(error).__name__
            raise failure.cut(said, self.where) from error
        except (ValueError, RecursionError):
            raise failure.garbage("an answer that is no JSON", self.where) from None

    def unreachable(self, error: Exception) -> Unavailable:
        return failure.unreachable(_why(error), self.where)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _refusal(self, response: aiohttp.ClientResponse) -> failure.ServerError:
        try:
            async with asyncio.timeout(self._answer_s):
                data = await response.content.read(_MOST_REFUSAL)
        except Exception:
            data = b""
        finally:
            response.close()
        body = data.decode(errors="replace")
        return failure.refused(response.status, body, response.headers, self.key, self.where)


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

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(note)
    return trace


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
        raise failure.bad_option(f"the request cannot be written as JSON: {error}") from None


def checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_right = is_right and (parts.port is None or parts.port > 0)
    except (ValueError, TypeError, AttributeError):
        is_right = False
    if not is_right:
        message = "the server's address begins with http:// or https://"
        raise failure.bad_option(message, "such as http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        message = "the server's address holds a name, a password, a query or a fragment"
        raise failure.bad_option(message, "give the key as `key`, or in `TORVYN_KEY`")
    return url.rstrip("/")


def checked_key(key: str | None) -> str | None:
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise failure.bad_option("the key holds a character that no key has")
    return key or None


def _tls(verify: bool, ca: str | os.PathLike[str] | None) -> ssl.SSLContext | bool:
    if ca is None:
        return verify
    try:
        is_folder = os.path.isdir(ca)
        places = {"capath": ca} if is_folder else {"cafile": ca}
        return ssl.create_default_context(**places)  # type: ignore[arg-type]
    except OSError as error:
        why = error.strerror or error
        raise failure.bad_option(f"`ca` cannot be used: {os.fspath(ca)}: {why}") from None
