"""Challenges: what a registry demands with status 401, and where the token for it is. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

_SCHEME: Final = re.compile(r"\s*([A-Za-z]+)(?:\s+|$)")
_PARAMETER: Final = re.compile(
    r'\s*([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)'
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a registry wants to be asked: `basic` or `bearer`."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""

    @classmethod
    def parse(cls, header: str) -> Challenge | None:
        """The challenge of a header; None if it is neither Basic nor Bearer."""
        match = _SCHEME.match(header[:8192])
        if match is None or match[1].lower() not in ("basic", "bearer"):
            return None
        found = {
            name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain
            for name, quoted, plain in _PARAMETER.findall(header[match.end() : 8192])
        }
        named = {key: found.get(key, "") for key in ("realm", "service", "scope")}
        return cls(match[1].lower(), **named)

    def token_url(self, scope: str) -> str:
        """Where to get a token for our scope. The scope that the registry names is not used: what
        we ask for is decided here."""
        parts = urlsplit(self.realm)
        wanted = {"service": self.service, "scope": scope}
        query = urlencode({key: value for key, value in wanted.items() if value})
        joined = "&".join(filter(None, (parts.query, query)))
        return urlunsplit((parts.scheme, parts.netloc, parts.path, joined, ""))


def scope_of(repository: str, *actions: str) -> str:
    return f"repository:{repository}:{','.join(actions)}"
