"""`http`: a small HTTP server whose requests become elements. It answers 200 when the flow has
settled them, so a client that repeats every other request loses nothing.

The server runs on a thread of its own and puts payloads where `pull` takes them. It listens on the
loopback interface unless a token protects it.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from typing import Any, ClassVar

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.packages import import_package
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.network.sockets import parse_address
from torvyn.components.spec import Option, Spec
from torvyn.components.tls import check_key_pair, server_tls
from torvyn.errors import Unavailable, os_reason

SPEC = Spec(
    name="http",
    role="source",
    summary="Listens for HTTP requests and answers them when the flow has settled their elements.",
    options=(
        Option("listen", "text", "127.0.0.1:8080", "The address and the port to listen on."),
        Option("path", "text", "/", "The path of the requests."),
        Option(
            "format",
            "choice",
            "auto",
            "How a body becomes elements: `json` (one per item of an array), `ndjson` (one per "
            "line), `raw` (the body), or `auto`, by the request's content type.",
            choices=("auto", "json", "ndjson", "raw"),
        ),
        Option(
            "token",
            "text",
            "",
            "What clients must send as `Authorization: Bearer`. Write `${NAME}`, so that it stays "
            "out of the manifest. Needed to listen beyond the loopback interface.",
        ),
        Option("max_body", "size", 1024 * 1024, "The largest body; others get 413.", minimum=1),
        Option(
            "max_waiting",
            "integer",
            10_000,
            "How many elements may be in the flow; more requests get 429 with `Retry-After`.",
            minimum=1,
        ),
        Option("max_connections", "integer", 256, "How many clients at a time.", minimum=1),
        Option(
            "timeout",
            "duration",
            30.0,
            "How long a request may take to arrive, and then to be settled before it gets 503.",
            minimum=0.001,
        ),
        Option("cert_file", "text", "", "The server's certificate, for HTTPS."),
        Option("key_file", "text", "", "Its private key."),
    ),
    main="listen",
    example="""\
[flow.main.nodes.readings]
component = "http"
config = { listen = "127.0.0.1:8080", path = "/readings", max_body = "256KiB" }
""",
)


class Http(Source):
    spec: ClassVar[Spec] = SPEC
    is_exclusive = True

    _listener: Any = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        host, port = parse_address(SPEC, options["listen"])
        module = import_package("torvyn.components.http.listener", "`http`", "http")
        listener_options = module.ListenerOptions(
            host=host,
            port=port,
            path=options["path"],
            token=options["token"],
            format=options["format"],
            max_body_bytes=int(options["max_body"]),
            max_waiting=options["max_waiting"],
            max_connections=options["max_connections"],
            timeout_s=options["timeout"],
            tls=server_tls(SPEC, options) if options["cert_file"] else None,
        )
        self._ready: deque[Output] = deque()
        listener = module.Listener(listener_options, self._take)
        try:
            listener.start()
        except OSError as error:
            listener.close()
            raise Unavailable(
                f"cannot listen on {options['listen']}: {os_reason(error)}",
                hint="another process may listen there; choose another port",
            ) from error
        self._listener = listener

    @property
    def port(self) -> int:
        """The port that is listened on, also when the config leaves it to the system (0)."""
        return int(self._listener.port)

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        host, _ = parse_address(SPEC, options["listen"])
        if not options["path"].startswith("/") or "{" in options["path"]:
            message = f"`path` is {options['path']!r}, which is no path of a URL"
            raise wrong_config(SPEC, message, "it begins with a slash, such as `/readings`")
        if not options["token"] and not _is_loopback(host):
            hint = "set `token`, or listen on 127.0.0.1"
            raise wrong_config(SPEC, f"anyone could send elements to {host} without a token", hint)
        if not options["token"].isascii() or not options["token"].isprintable():
            raise wrong_config(SPEC, "`token` has characters that a header cannot have")
        check_key_pair(SPEC, options)

    def pull(self) -> Output | Pending:
        return self._ready.popleft() if self._ready else PENDING

    def acknowledge(self, count: int) -> None:
        if self._listener is not None:
            self._listener.settle(count)

    def teardown(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _take(self, payloads: list[bytes], content_type: str, attributes: dict[str, Any]) -> None:
        """From the listener's thread."""
        kind, marks = content_type[:256], attributes or None
        self._ready.extend(
            Output(payload, content_type=kind, attributes=marks) for payload in payloads
        )
        self.wake()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
