"""Requests to one registry: redirects, credentials, retries, time limits.

`Authorization` is set per request and only for the registry's own origin: a redirect or an upload
address on another host gets none. Bodies are not decompressed, so a body has the size that its
reader counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urljoin

from torvyn._artifact.registry_login import Authorization
from torvyn._artifact.registry_responses import (
    RETRIED,
    Retry,
    checked_address,
    failure_of,
    is_loopback,
    origin_of,
    proxy_for,
    read_body,
    unreachable,
    unsafe,
    untrusted,
    without_tls,
)
from torvyn._io.backoff import Retries
from torvyn._io.packages import import_package

if TYPE_CHECKING:
    import aiohttp

Result = TypeVar("Result")

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient a client is."""

    connect_s: float = 10.0
    silence_s: float = 30.0
    """How long a server may send nothing."""
    least_bytes_per_s: int = 1024
    """On average, after `silence_s`: a body that arrives more slowly is given up."""
    tries: int = 5
    retry_for_s: float = 120.0
    first_delay_s: float = 0.25

    @property
    def head_s(self) -> float:
        """For a connection and the head of its response, however many parts that comes in."""
        return self.connect_s + self.silence_s

    def is_timely(self, received: int, lasted_s: float) -> bool:
        """Whether so many bytes in so much time keep the least rate."""
        return lasted_s <= self.silence_s or received >= self.least_bytes_per_s * lasted_s

    def retries(self) -> Retries:
        return Retries(self.tries, self.retry_for_s, self.first_delay_s)


class Connection:
    """To one registry. `async with` closes its connections."""

    def __init__(
        self,
        host: str,
        *,
        is_insecure: bool = False,
        limits: Limits | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`is_insecure` allows HTTP for a host that is not this machine."""
        self.host: Final = host
        self.limits: Final = limits or Limits()
        self._authorization = Authorization(host, self.limits, environ)
        self._origin = f"https://{host}"
        self._has_probed = not (is_insecure or is_loopback(self._origin))
        self._probe_lock = asyncio.Lock()
        self._open_http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        aiohttp = import_package("aiohttp", "a registry", "oci", "artifact.package-missing")

        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self.limits.connect_s, sock_read=self.limits.silence_s
        )
        self._open_http = aiohttp.ClientSession(
            timeout=timeout,
            auto_decompress=False,
            # Cookies would be one more secret to keep apart by host.
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "torvyn", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        http, self._open_http = self._http, None
        await http.close()

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        address: str,
        scope: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Callable[[], Any] | None = None,
        body_bytes: int = 0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to one request; redirects are followed and a challenge is answered.
        `address` is a path of the registry or a URL that it gave; `body` is called for each time
        that the body is sent. Raises `Retry` for what may pass, also while the body is read."""
        answer_s = self.limits.head_s + body_bytes / self.limits.least_bytes_per_s
        with self._network_errors():
            await self._probe()
            url = urljoin(self._origin, address)
            used = self._authorization.header(scope)
            response = await self._send(method, url, scope, headers or {}, body, answer_s)
            if response.status == 401 and self._is_own(str(response.url)):
                challenge = response.headers.get("WWW-Authenticate", "")
                if await self._authorization.answer(
                    challenge, scope, used, self._origin, self._http
                ):
                    response.release()
                    response = await self._send(method, url, scope, headers or {}, body, answer_s)
            async with response:
                yield response

    async def retry(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """The result of an attempt, made again while it raises `Retry`."""
        retries = self.limits.retries()
        while True:
            try:
                return await attempt()
            except Retry as failure:
                await self.wait(retries, failure)

    async def wait(self, retries: Retries, failure: Retry) -> None:
        """Waits before the next try; raises the error if there is none."""
        delay_s = retries.next_delay_s(failure.after_s)
        if delay_s is None:
            raise failure.error from None
        await asyncio.sleep(delay_s)

    async def fetch(
        self,
        method: str,
        address: str,
        scope: str,
        limit_bytes: int,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of a request with a small answer, retried."""
        body = None if data is None else lambda: data

        async def attempt() -> tuple[int, Mapping[str, str], bytes]:
            async with self.request(
                method, address, scope, headers=headers, body=body, body_bytes=len(data or b"")
            ) as response:
                if response.status in RETRIED:
                    raise await failure_of(response, self.limits, self.host, f"{method} {address}")
                answer = await read_body(
                    response, self.limits, limit_bytes, f"the answer of {self.host}"
                )
                return response.status, response.headers, answer

        return await self.retry(attempt)

    def location(self, response: aiohttp.ClientResponse) -> str:
        """The address that a response names for the next step of an upload."""
        header = response.headers.get("Location")
        if not header:
            raise unsafe(self._origin, "it named no address for an upload")
        return checked_address(header, self._origin, str(response.url))

    async def _send(
        self,
        method: str,
        url: str,
        scope: str,
        headers: Mapping[str, str],
        body: Callable[[], Any] | None,
        answer_s: float,
    ) -> aiohttp.ClientResponse:
        for _ in range(MAX_REDIRECTS + 1):
            own = self._authorization.header(scope) if self._is_own(url) else None
            # aiohttp limits each read, and a head may come byte by byte.
            async with asyncio.timeout(answer_s):
                response = await self._http.request(
                    method,
                    url,
                    headers={**headers, **({"Authorization": own} if own else {})},
                    data=body() if body is not None else None,
                    allow_redirects=False,
                    proxy=proxy_for(url),
                )
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or location is None:
                return response
            response.release()
            if method not in ("GET", "HEAD"):
                raise unsafe(self._origin, f"it redirected {method} to another address")
            url = checked_address(location, self._origin, url)
        raise unsafe(self._origin, f"it redirected more than {MAX_REDIRECTS} times")

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._open_http is not None, "the connection is not open"
        return self._open_http

    def _is_own(self, url: str) -> bool:
        return origin_of(url) == origin_of(self._origin)

    async def _probe(self) -> None:
        """Finds out once whether a registry that may speak plain HTTP does."""
        import aiohttp

        async with self._probe_lock:
            if self._has_probed:
                return
            url = f"{self._origin}/v2/"
            try:
                async with (
                    asyncio.timeout(self.limits.head_s),
                    self._http.get(url, allow_redirects=False, proxy=proxy_for(url)),
                ):
                    pass
            except aiohttp.ClientConnectorSSLError:
                self._origin = f"http://{self.host}"
            except aiohttp.ClientConnectorError:
                # Nobody listens, or the certificate is not trusted: neither says that it is HTTP.
                raise
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
                self._origin = f"http://{self.host}"
            self._has_probed = True

    @contextlib.contextmanager
    def _network_errors(self) -> Iterator[None]:
        import aiohttp

        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            raise untrusted(self.host, error) from error
        except aiohttp.ClientConnectorSSLError as error:
            raise without_tls(self.host) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Retry(unreachable(self.host, error)) from error
