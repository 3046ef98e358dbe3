"""The check of the `Host` and `Origin` headers.

A web page can make its visitor's browser send requests to a server on the same machine, and with a
host name that points there it can even read the answers. So `Host` must be a local or configured
name, and requests of a page must come from a page of this server, or of an origin in `cors`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from torvyn.errors import UsageError
from torvyn.transport.access.cors import Cors
from torvyn.transport.rejection import Rejection

ANY: Final = "*"
_SAME_SITE: Final = ("same-origin", "none")


class HostCheck:
    def __init__(
        self, hosts: Iterable[str] = (), bound: str = "127.0.0.1", cors: Cors | None = None
    ) -> None:
        self.cors = cors or Cors()
        names = {_name(host) for host in hosts}
        self._allows_any = ANY in names
        if not _is_any(bound):
            names.add(_name(bound))
        self._names = names

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises a rejection for another host name and for pages of other origins."""
        host = headers.get("host", "")
        if not self._allows_any and not self._is_own(_name(host)):
            raise Rejection(
                421,
                "transport.host-refused",
                f"this server does not serve the host name {host[:100]!r}",
                hint="add the name to `hosts` of `[serve]`",
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            if not self.cors.allows(origin):
                raise _foreign(origin)
            return
        site = headers.get("sec-fetch-site", "none")
        if site not in _SAME_SITE and headers.get("sec-fetch-mode") != "navigate":
            raise _foreign(site)

    def _is_own(self, name: str) -> bool:
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        return is_loopback(name)


def _foreign(origin: str) -> Rejection:
    return Rejection(
        403,
        "transport.origin-refused",
        f"the request comes from a page of another origin: {origin[:100]!r}",
        hint="add the origin to `cors` of `[serve]`, serve the page from this server, or send the "
        "request from a program",
    )


def _name(host: str) -> str:
    """The host without port and brackets."""
    host = host.strip().lower().rstrip(".")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")


def is_loopback(name: str) -> bool:
    """Whether only programs on this machine can reach that address."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _is_any(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return not name


def check_bound(host: str, is_allowed: bool, has_keys: bool = False) -> None:
    """Raises if other machines could reach a server without API keys, unless that is allowed
    explicitly."""
    if is_allowed or has_keys or is_loopback(host):
        return
    raise UsageError(
        "transport.public-refused",
        f"other machines can reach `{host}`, and the server would require no API key",
        hint="create a key with `torvyn keys add NAME` and pass `--keys PATH`; or listen on "
        "127.0.0.1 behind a proxy that checks its users; or pass `--allow-public-without-keys`",
    )
