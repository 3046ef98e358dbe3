"""What a registry may answer: addresses to go to, bodies within limits, and its errors."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from torvyn._artifact.oci import too_large
from torvyn._io.backoff import retry_after_s
from torvyn._io.safe_text import escape_controls
from torvyn.errors import ArtifactError, MissingError, TorvynError, os_reason

if TYPE_CHECKING:
    import aiohttp

    from torvyn._artifact.registry_http import Limits

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

Origin = tuple[str, str, int]


def origin_of(url: str) -> Origin:
    """Scheme, host and port: what credentials are bound to."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names. aiohttp's own way would also read passwords from
    `.netrc`."""
    parts = urlsplit(url)
    if is_loopback(url) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def checked_address(location: str, registry: str, base: str = "") -> str:
    """An address that a registry (the URL of its origin) named, perhaps relative to another. It
    must use TLS, unless the registry itself does not and the address is of the registry or of
    this machine."""
    try:
        url = urljoin(base, location)
        parts = urlsplit(url)
        is_own = origin_of(url) == origin_of(registry)
        # What is no name fails only where it is looked up, with an error of another kind.
        (parts.hostname or "").encode("idna")
        if not (url.isascii() and url.isprintable()):
            raise ValueError
    except ValueError:
        raise unsafe(registry, "it named an address that is not valid") from None
    is_plain_allowed = registry.startswith("http:") and (is_own or is_loopback(url))
    if parts.scheme != "https" and not (parts.scheme == "http" and is_plain_allowed):
        raise unsafe(registry, f"it named an address without TLS, {parts.scheme}://{parts.netloc}")
    if parts.username is not None or not parts.hostname:
        raise unsafe(registry, "it named an address with a login or without a host")
    return url


def unsafe(registry: str, problem: str) -> ArtifactError:
    message = f"the registry {urlsplit(registry).netloc} is not used: {problem}"
    return ArtifactError("artifact.registry-unsafe", message)


SMALL_BODY_BYTES: Final = 64 * 1024
"""Of errors and tokens."""
RETRIED: Final = (408, 429, 500, 502, 503, 504)
_MAX_DETAIL: Final = 200


class Retry(Exception):
    """A failure that may pass. Carries the error for when it does not."""

    def __init__(self, error: TorvynError, after_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.after_s = after_s


async def timely_chunks(
    response: aiohttp.ClientResponse, limits: Limits, what: str
) -> AsyncIterator[bytes]:
    """The body. Raises as soon as it arrives too slowly: a byte from time to time is no silence,
    and would keep a reader for ever."""
    started_s, received = time.monotonic(), 0
    while True:
        # The limit of aiohttp begins anew with each byte, also of what only frames the body.
        async with asyncio.timeout(limits.silence_s):
            chunk = await response.content.readany()
        if not chunk:
            return
        received += len(chunk)
        yield chunk
        if not limits.is_timely(received, time.monotonic() - started_s):
            response.close()
            message = f"{what} arrives with less than {limits.least_bytes_per_s} bytes/s"
            raise MissingError("artifact.registry-slow", message)


async def read_body(
    response: aiohttp.ClientResponse, limits: Limits, limit_bytes: int, what: str
) -> bytes:
    """The whole body. Raises as soon as it is longer than the limit."""
    body = bytearray()
    async for chunk in timely_chunks(response, limits, what):
        body += chunk
        if len(body) > limit_bytes:
            response.close()
            raise too_large(f"{what} has more than {limit_bytes} bytes")
    return bytes(body)


async def failure_of(
    response: aiohttp.ClientResponse, limits: Limits, host: str, what: str
) -> TorvynError | Retry:
    """The error for a response that is none of the expected ones; `what` was asked for."""
    try:
        body = await read_body(response, limits, SMALL_BODY_BYTES, "an error")
    except TorvynError:
        body = b""
    return failure(response.status, response.headers, body, host, what)


def failure(
    status: int, headers: Mapping[str, str], body: bytes, host: str, what: str
) -> TorvynError | Retry:
    detail = _detail(body)
    if status in (401, 403):
        message = f"{host} denied access to {what}{detail}"
        hint = f"log in with `docker login {host}`, or ask for access"
        return MissingError("artifact.registry-denied", message, hint=hint)
    message = f"{host} answered status {status} to {what}{detail}"
    error = MissingError("artifact.registry-failed", message)
    after_s = retry_after_s(headers.get("Retry-After"), headers.get("Date"))
    return Retry(error, after_s) if status in RETRIED else error


def unreachable(host: str, error: BaseException) -> MissingError:
    reason = escape_controls(os_reason(error)[:_MAX_DETAIL])
    hint = "check the name and the network; with `--offline`, `pull` and `run` use the cache"
    message = f"cannot reach {host}: {reason}"
    return MissingError("artifact.registry-unreachable", message, hint=hint)


def untrusted(host: str, error: aiohttp.ClientConnectorCertificateError) -> ArtifactError:
    cause = error.certificate_error
    reason = str(getattr(cause, "verify_message", "") or cause).rstrip(".")
    message = f"the certificate of {host} is not trusted: {reason}"
    hint = "if it is from your own authority, set `SSL_CERT_FILE` to a file with its certificate"
    return ArtifactError("artifact.registry-untrusted", message, hint=hint)


def without_tls(host: str) -> ArtifactError:
    message = f"{host} does not speak TLS"
    hint = "check the port; `--insecure` allows plain HTTP, in a network that you trust"
    return ArtifactError("artifact.registry-untrusted", message, hint=hint)


def _detail(body: bytes) -> str:
    """What the registry says about its error; empty if it says nothing useful."""
    try:
        first = json.loads(body)["errors"][0]
        text = " ".join(str(first.get(key) or "") for key in ("code", "message")).strip()
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return f": {escape_controls(text[:_MAX_DETAIL])}" if text else ""
