"""`udp`: sends each element as a datagram.

Nothing confirms a datagram: it arrives or it does not.
"""

from __future__ import annotations

import errno
import socket
from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn.components.network.socket_sink import PEER_ADDRESS, SocketSink
from torvyn.components.network.sockets import Address
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput

SPEC = Spec(
    name="udp",
    role="sink",
    summary="Sends each element as a UDP datagram.",
    options=(
        PEER_ADDRESS,
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


class Udp(SocketSink):
    spec: ClassVar[Spec] = SPEC
    unit = "datagrams"

    def configure(self, options: dict[str, Any]) -> None:
        self._end: bytes = options["end"].encode()

    def push(self, element: Element) -> None:
        datagram = bytes(element.data) + self._end
        self.deliver(lambda: self._send(datagram), OSError)

    def open_socket(self, address: Address) -> socket.socket:
        family, kind, _, _, place = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
        opened = socket.socket(family, kind)
        try:
            # A connected socket learns that nobody listens, where the other side says so.
            opened.connect(place)
        except OSError:
            opened.close()
            raise
        return opened

    def _send(self, datagram: bytes) -> None:
        try:
            self.connect().send(datagram)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                message = f"its {len(datagram)} bytes do not fit into a datagram"
                raise InvalidInput(message) from error
            self.close()
            raise
