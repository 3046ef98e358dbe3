"""`http`: posts elements to an HTTP server, many per request. A 2xx answer accepts them.

While the server is away, is overloaded or rejects us (a token that has expired, a wrong path), the
call waits, so that the flow feels back-pressure; nothing is given up. The `Idempotency-Key` of a
repeated request is the same, so a server can ignore what it has already. Another answer from 400 to
499 refuses the elements for good, as a payload is that is not JSON: a request with several is
divided until those at fault are found, and the node's error policy applies to them alone.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn._io.connection import Connection
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.http.batch_body import BodyEncoder
from torvyn.components.http.http_client import Server
from torvyn.components.http.uplink import Uplink
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.server_url import UrlRules, parse_server_url
from torvyn.components.spec import Option, Spec
from torvyn.components.tls import TLS_OPTIONS, check_tls_options, client_tls
from torvyn.errors import Unavailable

SPEC = Spec(
    name="http",
    role="sink",
    summary="Posts elements to an HTTP server, many per request, until it accepts them.",
    options=(
        Option("url", "text", None, "Where to send them: `http://` or `https://`.", required=True),
        Option("method", "choice", "POST", "The request's method.", choices=("POST", "PUT")),
        Option(
            "format",
            "choice",
            "json-array",
            "`json-array` sends the payloads as one array, and refuses one that is not JSON; "
            "`ndjson` one per line; `raw` one payload per request, as it is.",
            choices=("json-array", "ndjson", "raw"),
        ),
        Option(
            "headers",
            "text table",
            {},
            "More headers. Write secrets as `${NAME}`, so that they stay out of the manifest.",
        ),
        Option("max_batch", "integer", 500, "The most elements in a request.", minimum=1),
        Option(
            "max_body",
            "size",
            1024 * 1024,
            "The most bytes in a request, before compression. A larger element is sent alone.",
            minimum=1,
        ),
        Option("gzip", "boolean", False, "Compress the bodies."),
        Option("timeout", "duration", 30.0, "How long the server may take.", minimum=0.001),
        Option(
            "device",
            "text",
            "",
            "Our name in idempotency keys; default: the name of the host.",
        ),
        *TLS_OPTIONS,
        ON_DISCONNECT,
    ),
    main="url",
    example="""\
[flow.main.nodes.uplink]
component = "http"
config = { url = "https://example.com/readings", format = "ndjson", gzip = true }
""",
)

_URL: Final = UrlRules(
    schemes=("http", "https"),
    server="a server",
    hint="write `http://host:port/path`, or `https://...`",
    secrets="set an `Authorization` header instead",
)


class Http(Sink):
    spec: ClassVar[Spec] = SPEC
    waits_without_limit = True

    _uplink: Uplink | None = None
    connection: Connection | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._encoder = BodyEncoder(
            options["format"],
            options["device"] or socket.gethostname(),
            gzip=options["gzip"],
            max_count=options["max_batch"],
            max_bytes=int(options["max_body"]),
        )
        server = _server(options)
        more = {name.title(): value for name, value in options["headers"].items()}
        headers = {"User-Agent": "torvyn", **more}
        if options["gzip"]:
            headers["Content-Encoding"] = "gzip"
        self.connection = Connection("http", server.address)
        self._uplink = Uplink(
            server,
            self.connection,
            method=options["method"],
            headers=headers,
            fails_when_lost=options["on_disconnect"] == "fail",
        )

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        check_tls_options(SPEC, options, _parse_url(options["url"]).scheme, "https")
        for name, value in options["headers"].items():
            if not _is_header(name, value):
                raise wrong_config(SPEC, f"`headers` has {name!r}, which is no header")

    async def push(self, element: Element) -> None:
        raise_refusal(await self.push_batch((element,)))

    async def push_batch(self, elements: Sequence[Element]) -> Results | None:
        uplink, encoder = self._uplink, self._encoder
        if uplink is None:
            raise Unavailable("the connection is closed")
        results = BatchResults(elements, encoder.payload)
        payloads = dict(results.sendable)

        async def deliver(positions: list[int]) -> None:
            part = [elements[at] for at in positions]
            await uplink.deliver(encoder.body(part, [payloads[at] for at in positions]))

        return await results.send_async(encoder.parts(results.sendable), deliver)

    def teardown(self) -> None:
        uplink, self._uplink = self._uplink, None
        if uplink is not None:
            uplink.close()
        if self.connection is not None:
            self.connection.close()


def _server(options: dict[str, Any]) -> Server:
    parts = _parse_url(options["url"])
    is_secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Server(
        host=parts.hostname or "",
        port=parts.port or (443 if is_secure else 80),
        target=target,
        tls=client_tls(SPEC, options) if is_secure else None,
        timeout_s=options["timeout"],
    )


def _parse_url(url: str) -> SplitResult:
    parts = parse_server_url(SPEC, url, _URL)
    if " " in url or not url.isascii():
        raise wrong_config(
            SPEC, f"`url` is {url!r}, with characters that must be encoded", _URL.hint
        )
    return parts


def _is_header(name: str, value: str) -> bool:
    is_name = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return is_name and value.isascii() and value.isprintable()
