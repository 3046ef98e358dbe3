"""What a sender is, and the address of a collector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from urllib.parse import unquote, urlsplit

from torvyn.errors import UsageError

Signal = Literal["traces", "metrics"]
SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics")
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_PATHS: Final = tuple(f"/v1/{signal}" for signal in SIGNALS)


@dataclass(frozen=True, slots=True)
class Request:
    """An encoded export request with so many spans or data points."""

    signal: Signal
    body: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """`rejected` items were not accepted and never will be. If `is_final` is not set, the request
    is sent again, after `retry_after_s` at the earliest."""

    is_final: bool
    rejected: int = 0
    problem: str = ""
    retry_after_s: float = 0.0


class Sender(Protocol):
    """Sends one request at a time; never raises."""

    def send(self, request: Request) -> Result: ...

    def abort(self) -> None:
        """From another thread: ends a request that waits."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int | None
    path: str
    """Without the part that names the signal."""
    is_secure: bool
    headers: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, headers: str = "") -> Endpoint:
        """`headers` is a list of `name=value`, as in OTEL_EXPORTER_OTLP_HEADERS."""
        parts = urlsplit(text)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host or parts.query or "@" in parts.netloc:
            raise UsageError(
                "observe.bad-endpoint",
                f"the collector's address is not a plain http or https URL: {text!r}",
                hint="for example http://127.0.0.1:4318",
            )
        path = parts.path.rstrip("/")
        for ending in _PATHS:
            path = path.removesuffix(ending)
        return cls(host, port, path, parts.scheme == "https", _parse_headers(headers))


def _parse_headers(text: str) -> dict[str, str]:
    headers = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = pair.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        # The value may be a secret, so it is not quoted.
        if not equals or not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise UsageError(
                "observe.bad-headers",
                "the headers for the collector are not a list of `name=value`",
                hint="for example api-key=${API_KEY},x-tenant=plant-7",
            )
        headers[name] = value
    return headers
