"""The gate: whom a server answers at all.

A web page in somebody's browser can send requests to a server on the same machine, and by a name
that leads there even read the answers. So `Host` must be a name of this machine or one that was
configured, and what comes from a page must come from a page of this server. There is no CORS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Final

from torvyn.errors import UsageError
from torvyn.transport.rejection import Rejection

ANY: Final = "*"
_OURS: Final = ("same-origin", "none")


class HostCheck:
    def __init__(self, hosts: Iterable[str] = (), bound: str = "127.0.0.1") -> None:
        names = {_name(host) for host in hosts}
        self._is_open = ANY in names
        if not _is_any(bound):
            names.add(_name(bound))
        self._names = names

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises a rejection for a name that is not ours and for pages of others."""
        host = headers.get("host", "")
        if not self._is_open and not self._is_ours(_name(host)):
            raise Rejection(
                421,
                "transport.host-refused",
                f"this server does not answer to the name {host[:100]!r}",
                hint="`hosts` of `[serve]` lists the names it answers to besides `localhost`",
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise _foreign(origin)
        site = headers.get("sec-fetch-site", "none")
        if site not in _OURS and headers.get("sec-fetch-mode") != "navigate":
            raise _foreign(site)

    def _is_ours(self, name: str) -> bool:
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        return is_loopback(name)


def _foreign(origin: str) -> Rejection:
    return Rejection(
        403,
        "transport.origin-refused",
        f"a page of another origin asks: {origin[:100]!r}",
        hint="serve the page from here, or ask from a program",
    )


def _name(host: str) -> str:
    """The name without its port, and without the brackets of an address."""
    host = host.strip().lower().rstrip(".")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")


def is_loopback(name: str) -> bool:
    """Whether only programs of this machine can reach that address."""
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
    """Raises when others could reach it and nobody is asked for a key, unless that was asked for
    in words."""
    if is_allowed or has_keys or is_loopback(host):
        return
    raise UsageError(
        "transport.public-refused",
        f"`{host}` can be reached from other machines, and nobody would be asked for a key",
        hint="`torvyn keys add NAME` and `--keys PATH` ask for keys; or listen on 127.0.0.1 behind "
        "a proxy that knows its users, or say `--allow-public-without-keys`",
    )
