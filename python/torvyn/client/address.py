"""A server's URL, API key, headers and TLS options, validated once for every transport."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from torvyn.client import failures
from torvyn.errors import InvalidInput, os_reason


@dataclass(frozen=True, slots=True)
class Address:
    """Its `repr` leaves out the API key."""

    url: str
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool = True
    ca: str | os.PathLike[str] | None = None
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 45.0

    @classmethod
    def parse(
        cls, url: str, key: str | None, headers: Mapping[str, str], **options: Any
    ) -> Address:
        """Raises for values that cannot be right. Without a key, uses that of the environment."""
        key = _validate_key(key if key is not None else os.environ.get("TORVYN_KEY"))
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        return cls(_validate_url(url), key, {**headers, **authorization}, **options)

    @property
    def netloc(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    @property
    def name(self) -> str:
        """The server's name in error messages."""
        return f"the server {self.netloc}"

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")

    def tls(self) -> ssl.SSLContext | bool:
        """aiohttp's `ssl` argument: a context, or whether to verify certificates at all."""
        if self.ca is None:
            return self.verify
        try:
            path = {"capath" if os.path.isdir(self.ca) else "cafile": os.fspath(self.ca)}
            return ssl.create_default_context(**path)  # type: ignore[arg-type]
        except OSError as error:
            raise unusable_ca(self.ca, error) from None


def unusable_ca(ca: str | os.PathLike[str], error: OSError) -> InvalidInput:
    why = os_reason(error)
    return failures.bad_option(f"cannot read the certificates in `ca`: {os.fspath(ca)}: {why}")


def _validate_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_valid = is_valid and (parts.port is None or parts.port > 0)
    except (ValueError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:
        message = "the server's address must be a URL with http:// or https://"
        raise failures.bad_option(message, "for example http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        message = "the server's address must not contain a user, a password, a query or a fragment"
        raise failures.bad_option(message, "pass the API key as `key` or in `TORVYN_KEY`")
    return url.rstrip("/")


def _validate_key(key: str | None) -> str | None:
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise failures.bad_option("the API key contains a space or a character that is not ASCII")
    return key or None
