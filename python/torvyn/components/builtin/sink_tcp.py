"""`tcp`: sends each element as a line over a TCP connection.

TCP does not say what the other side has read: when a connection is lost, the lines on their way are
lost too, and the batch that was being sent is sent again. Use an acknowledged protocol where that
matters.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, ClassVar

from torvyn.components.config import parse_config
from torvyn.components.connection import Connection
from torvyn.components.line_format import SINK_FORMAT, encode_line
from torvyn.components.network.sockets import keep_alive, parse_address, render_address, was_closed
from torvyn.components.retry import ON_DISCONNECT, RetryLoop
from torvyn.components.spec import Option, Spec
from torvyn.contract import Element, Sink
from torvyn.errors import Unavailable

SPEC = Spec(
    name="tcp",
    role="sink",
    summary="Sends each element as a line over a TCP connection.",
    options=(
        Option("address", "text", None, "The `host:port` to connect to.", required=True),
        SINK_FORMAT,
        Option("timeout", "duration", 10.0, "The time limit of connecting and of sending."),
        ON_DISCONNECT,
    ),
    main="address",
    example="""\
[flow.main.nodes.forward]
component = "tcp"
config = { address = "collector.example:9000", format = "jsonl" }
""",
)


class Tcp(Sink):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"
    run = "thread"

    _socket: socket.socket | None = None
    _retry: RetryLoop | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._address = parse_address(SPEC, options["address"])
        self._is_json = options["format"] == "jsonl"
        self._timeout_s: float = options["timeout"]
        self.connection = Connection("tcp", render_address(self._address))
        self._retry = RetryLoop(self.connection, options["on_disconnect"])

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(SPEC, options["address"])

    def push(self, element: Element) -> None:
        self.push_batch((element,))

    def push_batch(self, elements: Sequence[Element]) -> None:
        if self._retry is None:
            raise Unavailable("the sink is not open")
        lines = b"".join(encode_line(element, as_json=self._is_json) for element in elements)
        self._retry.call(lambda: self._send(lines), OSError)

    def unblock(self) -> None:
        if self._retry is not None:
            self._retry.stop()

    def teardown(self) -> None:
        self._close()
        if self._retry is not None:
            self.connection.close()

    def _send(self, lines: bytes) -> None:
        try:
            if self._socket is not None and was_closed(self._socket):
                self._close()
            self._connect().sendall(lines)
        except OSError:
            self._close()
            raise

    def _connect(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, self._timeout_s)
            keep_alive(self._socket)
        return self._socket

    def _close(self) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
