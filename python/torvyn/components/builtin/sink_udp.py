"""`udp`: sends each element as a datagram.

Nothing confirms a datagram: it arrives or it does not.
"""

from __future__ import annotations

import errno
import socket
from typing import Any, ClassVar

from torvyn.components.config import parse_config
from torvyn.components.connection import Connection
from torvyn.components.network.sockets import parse_address, render_address
from torvyn.components.retry import ON_DISCONNECT, RetryLoop
from torvyn.components.spec import Option, Spec
from torvyn.contract import Element, Sink
from torvyn.errors import InvalidInput, Unavailable

SPEC = Spec(
    name="udp",
    role="sink",
    summary="Sends each element as a UDP datagram.",
    options=(
        Option("address", "text", None, "The `host:port` to send to.", required=True),
        Option("end", "text", "\n", "The text after each payload."),
        ON_DISCONNECT,
    ),
    main="address",
    example="""\
[flow.main.nodes.metrics]
component = "udp"
config = { address = "127.0.0.1:8125" }
""",
)


class Udp(Sink):
    spec: ClassVar[Spec] = SPEC
    unit = "datagrams"
    run = "thread"

    _socket: socket.socket | None = None
    _retry: RetryLoop | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._address = parse_address(SPEC, options["address"])
        self._end: bytes = options["end"].encode()
        self.connection = Connection("udp", render_address(self._address))
        self._retry = RetryLoop(self.connection, options["on_disconnect"])

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(SPEC, options["address"])

    def push(self, element: Element) -> None:
        if self._retry is None:
            raise Unavailable("the sink is not open")
        datagram = bytes(element.data) + self._end
        self._retry.call(lambda: self._send(datagram), OSError)

    def unblock(self) -> None:
        if self._retry is not None:
            self._retry.stop()

    def teardown(self) -> None:
        self._close()
        if self._retry is not None:
            self.connection.close()

    def _send(self, datagram: bytes) -> None:
        try:
            self._connect().send(datagram)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise InvalidInput(
                    f"its {len(datagram)} bytes do not fit into a datagram"
                ) from error
            self._close()
            raise

    def _connect(self) -> socket.socket:
        if self._socket is None:
            family, kind, _, _, place = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[
                0
            ]
            self._socket = socket.socket(family, kind)
            # A connected socket learns that nobody listens, where the other side says so.
            self._socket.connect(place)
        return self._socket

    def _close(self) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
