"""The chat page at `/`, and the files that it loads from `page_files`.

Only the files of a fixed list are served, so no path can lead elsewhere. The page loads nothing
from other origins, runs no script but its own, and cannot be framed.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from torvyn.transport.rejection import Rejection

if TYPE_CHECKING:
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
        # Assigning a string as HTML is an error, wherever the script tries it.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    # A browser caches the files, and revalidates them each time.
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


async def index(exchange: HttpExchange) -> None:
    await _send(exchange, INDEX)


async def asset(exchange: HttpExchange) -> None:
    name = exchange.path.removeprefix(ASSETS)
    if name not in NAMES:
        message = f"the chat page has no file {name[:100]!r}"
        raise Rejection(404, "transport.route-unknown", message)
    await _send(exchange, name)


async def _send(exchange: HttpExchange, name: str) -> None:
    data, tag = _file(name)
    headers = {**_HEADERS, "etag": tag}
    is_known = tag in exchange.headers.get("if-none-match", "")
    kind = _KINDS[PurePosixPath(name).suffix]
    await exchange.answer(b"" if is_known else data, 304 if is_known else 200, kind, headers)


@cache
def _file(name: str) -> tuple[bytes, str]:
    """The content of a file, and its entity tag."""
    data = (files("torvyn.transport.http") / "page_files" / name).read_bytes()
    return data, f'"{hashlib.sha256(data).hexdigest()[:20]}"'
