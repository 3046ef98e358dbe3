"""Responses of a registry: bodies within limits, and errors for people."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

from torvyn._io.backoff import retry_after_s
from torvyn.artifact.failures import too_large
from torvyn.errors import ArtifactError, MissingError, TorvynError, os_reason
from torvyn.text.control_characters import escape_controls

if TYPE_CHECKING:
    import aiohttp

    from torvyn.artifact.registry.http.connection import Limits

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
