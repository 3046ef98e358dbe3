"""CORS: which pages of other origins may use the server from a browser. By default none.

A page of a listed origin can read the answers, with cookies of a proxy in front if there is one.
With `*` every page can, but no browser sends cookies then, so it takes a server with API keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from torvyn.errors import UsageError

ANY: Final = "*"
_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2000}")
_EXPOSED: Final = (
    "retry-after, retry-after-ms, traceparent, x-request-id, x-should-retry, x-torvyn-ignored"
)
_MAX_AGE_S: Final = 600
"""How long a browser may remember the answer to a preflight."""


class Cors:
    def __init__(self, origins: Iterable[str] = (), has_keys: bool = False) -> None:
        self._origins = frozenset(_checked(origin) for origin in origins)
        self._allows_any = ANY in self._origins
        if self._allows_any and not has_keys:
            raise _invalid(
                "`cors` of `[serve]` is `*`, and the server requires no API key: every web page "
                "could use it through the browser of its visitor",
                "list the origins, or set `keys`",
            )

    def allows(self, origin: str) -> bool:
        return self._allows_any or origin.lower() in self._origins

    def headers(self, request: Mapping[str, str]) -> dict[str, str]:
        """For the response to a request with these headers."""
        origin = request.get("origin")
        if not self._origins:
            return {}
        if origin is None or not self.allows(origin):
            return {"vary": "origin"}
        exposed = {"access-control-expose-headers": _EXPOSED}
        if origin.lower() not in self._origins:
            return {"access-control-allow-origin": ANY, **exposed}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-credentials": "true",
            **exposed,
            "vary": "origin",
        }

    def preflight(self, method: str, request: Mapping[str, str]) -> dict[str, str] | None:
        """More headers for a browser that asks whether a page may send a request; None: it does
        not ask that."""
        origin = request.get("origin")
        if method != "OPTIONS" or "access-control-request-method" not in request:
            return None
        if origin is None or not self.allows(origin):
            return None
        allowed = {
            "access-control-allow-methods": "GET, POST, DELETE",
            "access-control-max-age": str(_MAX_AGE_S),
        }
        # Clients send headers of their own, such as `x-stainless-lang`.
        names = request.get("access-control-request-headers", "")
        if _HEADER_NAMES.fullmatch(names):
            allowed["access-control-allow-headers"] = names
        return allowed


def _checked(origin: str) -> str:
    if origin != ANY and not _ORIGIN.fullmatch(origin.lower()):
        raise _invalid(
            f"`cors` of `[serve]` contains {origin[:100]!r}, which is not an origin",
            "an origin is a scheme, a host and the port if it is not the usual one, such as "
            "`https://app.example`",
        )
    return origin.lower()


def _invalid(message: str, hint: str) -> UsageError:
    return UsageError("transport.cors-invalid", message, hint=hint)
