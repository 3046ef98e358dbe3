"""Cleans the text of an upstream for two readers. Pure.

The operator may see everything but the key. A client may see what concerns its request, but no
address, no path and no exception of a library.
"""

from __future__ import annotations

import re
from typing import Final

_SHOWN: Final = 300
_READ: Final = 4096
"""Characters that are searched for secrets before the text is shortened."""
_SECRET: Final = "***"
_KEY: Final = re.compile(r"\b(?:sk|pk|rk|tvk)[-_][A-Za-z0-9_*.-]{6,}|\b[Bb]earer\s+\S+")
_ADDRESS: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\](?::\d+)?"
    r"|\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b"
    r"|\b(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+):\d{2,5}\b"
    r"|\b[A-Za-z0-9.-]+\.(?:internal|local|svc|lan|corp|cluster)\b"
)
_MACHINERY: Final = re.compile(
    r"Traceback|\b\w*(?:Error|Exception)\b|\b\w+::\w+|\b0x[0-9a-fA-F]{4,}"
    r"|(?:^|[\s\"'(=])(?:/[\w.@+-]+){2,}|[A-Za-z]:\\\w|\bat line \d"
)


def printable(text: str, secret: str | None = None) -> str:
    """One line for the operator: shortened, without the key, control characters escaped."""
    if secret:
        text = text.replace(secret, _SECRET)
    text = " ".join(text.split())
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def for_clients(text: str, secret: str | None = None, host: str | None = None) -> str:
    """The same for a client; empty if the text reveals internals."""
    text = text[:_READ].replace(secret, _SECRET) if secret else text[:_READ]
    text = _KEY.sub(_SECRET, text)
    if host:
        text = re.sub(rf"{re.escape(host)}(?::\d+)?", "[address]", text, flags=re.IGNORECASE)
    text = printable(_ADDRESS.sub("[address]", text))
    return "" if _MACHINERY.search(text) else text
