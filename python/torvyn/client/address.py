"""Where a server is and how it is spoken to: what every transport needs. Checked once."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from torvyn.client import failures


@dataclass(frozen=True, slots=True)
class Address:
    """The key is shown to nobody."""

    url: str
    key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: bool = True
    ca: str | os.PathLike[str] | None = None
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 45.0

    @classmethod
    def of(cls, url: str, key: str | None, headers: Mapping[str, str], **options: Any) -> Address:
        """The address, and all that cannot be right is raised. Without a key, the environment's."""
        key = _checked_key(key if key is not None else os.environ.get("TORVYN_KEY"))
        given = dict(headers)
        if key:
            given["Authorization"] = f"Bearer {key}"
        return cls(_checked_url(url), key, given, **options)

    @property
    def place(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    @property
    def where(self) -> str:
        """What errors call it."""
        return f"the server {self.place}"

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")

    def tls(self) -> ssl.SSLContext | bool:
        """What aiohttp takes: a context, or whether to look at certificates at all."""
        if self.ca is None:
            return self.verify
        try:
            places = {"capath" if os.path.isdir(self.ca) else "cafile": os.fspath(self.ca)}
            return ssl.create_default_context(**places)  # type: ignore[arg-type]
        except OSError as error:
            why = error.strerror or error
            raise failures.bad_option(f"`ca` cannot be used: {os.fspath(self.ca)}: {why}") from None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_right = is_right and (parts.port is None or parts.port > 0)
    except (ValueError, TypeError, AttributeError):
        is_right = False
    if not is_right:
        message = "the server's address begins with http:// or https://"
        raise failures.bad_option(message, "such as http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        message = "the server's address holds a name, a password, a query or a fragment"
        raise failures.bad_option(message, "give the key as `key`, or in `TORVYN_KEY`")
    return url.rstrip("/")


def _checked_key(key: str | None) -> str | None:
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise failures.bad_option("the key holds a character that no key has")
    return key or None
