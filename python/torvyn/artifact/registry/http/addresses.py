"""Addresses: which origin a URL belongs to, and which addresses a registry may send us to. Pure,
except for the environment's proxies."""

from __future__ import annotations

import urllib.request
from typing import Final
from urllib.parse import urljoin, urlsplit

from torvyn.errors import ArtifactError

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
