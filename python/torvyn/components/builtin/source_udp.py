"""`udp`: receives datagrams, and reads lines from them or takes each as a whole.

When the flow is slow, the operating system's buffer fills and it drops datagrams; their number is
logged.
"""

from __future__ import annotations

import logging
import select
import socket
import struct
from typing import Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn.components.network.line_receiver import Received
from torvyn.components.network.socket_listener import ADDRESS, LISTENER_OPTIONS, SocketListener
from torvyn.components.network.sockets import render_address
from torvyn.components.spec import Option, Spec

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="udp",
    role="source",
    summary="Receives UDP datagrams, and reads lines from them or takes each as a whole.",
    options=(
        ADDRESS,
        Option(
            "framing",
            "choice",
            "lines",
            "`lines` makes an element of each line, `datagram` one of each datagram, as bytes.",
            choices=("lines", "datagram"),
        ),
        Option(
            "receive_buffer",
            "size",
            1024 * 1024,
            "The operating system's buffer; it may allow less.",
            minimum=1,
        ),
        *LISTENER_OPTIONS,
    ),
    main="address",
    example="""\
[flow.main.nodes.readings]
component = "udp"
config = { address = "0.0.0.0:9000", format = "jsonl", peer = true }
""",
)

MAX_DATAGRAM_BYTES: Final = 65535
SO_RXQ_OVFL: Final = 40
"""Linux: how many datagrams this socket has dropped."""


class Udp(SocketListener):
    spec: ClassVar[Spec] = SPEC
    socket_kind = socket.SOCK_DGRAM
    unit = "datagrams"

    def configure(self, options: dict[str, Any]) -> None:
        self._takes_lines = options["framing"] == "lines"
        self._buffer_bytes = int(options["receive_buffer"])
        self.dropped = 0
        """How many datagrams the operating system has dropped, where it says so."""

    def to_output(self, received: Received) -> str | bytes | Output | None:
        if self._takes_lines or received.data is None:
            return super().to_output(received)
        return self.with_peer(received.data, received.sender)

    def teardown(self) -> None:
        is_open = self._thread is not None
        super().teardown()
        if is_open and self.dropped:
            logger.warning("`udp`: the system dropped %d datagrams", self.dropped)

    # On the thread

    def serve(self, bound: socket.socket) -> None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
        try:
            bound.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        except OSError:
            logger.debug("this system does not count dropped datagrams")
        while not self.is_stopped:
            self._inbox.wait_for_room()
            select.select([bound, self._stop_reader], [], [])
            self._receive(bound)

    def _receive(self, bound: socket.socket) -> None:
        try:
            data, extra, _, address = bound.recvmsg(MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(4))
        except OSError:
            return
        for level, kind, value in extra:
            if (level, kind) == (socket.SOL_SOCKET, SO_RXQ_OVFL):
                self._count_dropped(struct.unpack("=I", value[:4])[0])
        peer = render_address(address)
        parts = self._lines(data) if self._takes_lines else [data]
        self._inbox.put(Received(part, peer) for part in parts)

    def _lines(self, datagram: bytes) -> list[bytes | None]:
        lines = (line.removesuffix(b"\r") for line in datagram.removesuffix(b"\n").split(b"\n"))
        return [line if len(line) <= self._format.max_bytes else None for line in lines]

    def _count_dropped(self, total: int) -> None:
        if total and not self.dropped:
            logger.warning("`udp`: the flow is too slow: the system drops datagrams")
        self.dropped = total
