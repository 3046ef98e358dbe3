"""`tcp`: sends each element as a line over a TCP connection.

TCP does not say what the other side has read: when a connection is lost, the lines on their way are
lost too, and the batch that was being sent is sent again. Use an acknowledged protocol where that
matters.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.line_format import SINK_FORMAT, encode_line
from torvyn.components.network.socket_sink import PEER_ADDRESS, SocketSink
from torvyn.components.network.sockets import Address, keep_alive, was_closed
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="tcp",
    role="sink",
    summary="Sends each element as a line over a TCP connection.",
    options=(
        PEER_ADDRESS,
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


class Tcp(SocketSink):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"

    def configure(self, options: dict[str, Any]) -> None:
        self._is_json = options["format"] == "jsonl"
        self._timeout_s: float = options["timeout"]

    def push(self, element: Element) -> None:
        raise_refusal(self.push_batch((element,)))

    def push_batch(self, elements: Sequence[Element]) -> Results | None:
        results = BatchResults(elements, partial(encode_line, as_json=self._is_json))
        lines = b"".join(results.values)
        if lines:
            self.deliver(lambda: self._send(lines), OSError)
        return results.answer

    def open_socket(self, address: Address) -> socket.socket:
        connected = socket.create_connection(address, self._timeout_s)
        keep_alive(connected)
        return connected

    def _send(self, lines: bytes) -> None:
        try:
            if was_closed(self.connect()):
                self.close()
            self.connect().sendall(lines)
        except OSError:
            self.close()
            raise
