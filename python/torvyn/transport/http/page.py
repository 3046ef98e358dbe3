"""The page: a chat in the browser, at `/`, with files that lie beside this one.

Only the files of a fixed list are given out, so no path can lead elsewhere. The page loads nothing
from other places, runs no script but its own, and cannot be framed.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from torvyn.transport.rejection import Rejection

if TYPE_CHECKING:
    from torvyn.transport.application import Application
    from torvyn.transport.http.exchange import HttpExchange

ASSETS: Final = "/assets/"
INDEX: Final = "index.html"
NAMES: Final = (
    "answer.css",
    "answer.js",
    "chat.js",
    "code.js",
    "elements.js",
    "events.js",
    "history.js",
    "icon.svg",
    "inline.js",
    "main.js",
    "markdown.js",
    "marks.js",
    "page.css",
    "server.js",
    "settings.js",
    "status.js",
    "storage.js",
    "stream.js",
    "table.js",
)
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text that is read as HTML is an error, whoever wrote the line that tries.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    # A browser keeps the files, and asks each time whether they are still the same.
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


async def page(app: Application, exchange: HttpExchange) -> None:
    await _give(exchange, INDEX)


async def asset(app: Application, exchange: HttpExchange) -> None:
    name = exchange.path.removeprefix(ASSETS)
    if name not in NAMES:
        message = f"the page has no file {name[:100]!r}"
        raise Rejection(404, "transport.route-unknown", message)
    await _give(exchange, name)


async def _give(exchange: HttpExchange, name: str) -> None:
    data, tag = _file(name)
    headers = {**_HEADERS, "etag": tag}
    is_known = tag in exchange.headers.get("if-none-match", "")
    kind = _KINDS[PurePosixPath(name).suffix]
    await exchange.answer(b"" if is_known else data, 304 if is_known else 200, kind, headers)


@cache
def _file(name: str) -> tuple[bytes, str]:
    """A file of the page, and the tag that changes with it."""
    data = (files("torvyn.transport.http") / "page_files" / name).read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:20]}"'
