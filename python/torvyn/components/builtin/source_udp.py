"""`udp`: receives datagrams, and reads lines from them or takes each as a whole.

When the flow is slow, the operating system's buffer fills and it drops datagrams; their number is
logged.
"""

from __future__ import annotations

import logging
import select
import socket
import struct
import threading
from typing import Any, ClassVar, Final, NamedTuple

from torvyn.components.config import parse_config
from torvyn.components.connection import Connection
from torvyn.components.line_format import LineFormat, line_options
from torvyn.components.network.inbox import CAPACITY, Inbox
from torvyn.components.network.sockets import listen, parse_address, render_address
from torvyn.components.retry import ON_DISCONNECT, RetryLoop
from torvyn.components.spec import Option, Spec
from torvyn.contract import PENDING, Output, Pending, Source
from torvyn.errors import Unavailable

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="udp",
    role="source",
    summary="Receives UDP datagrams, and reads lines from them or takes each as a whole.",
    options=(
        Option("address", "text", "127.0.0.1:9000", "The `host:port` to listen on."),
        Option(
            "framing",
            "choice",
            "lines",
            "`lines` makes an element of each line, `datagram` one of each datagram, as bytes.",
            choices=("lines", "datagram"),
        ),
        Option("peer", "boolean", False, "Give each element its sender as the attribute `peer`."),
        Option(
            "receive_buffer",
            "size",
            1024 * 1024,
            "The operating system's buffer; it may allow less.",
            minimum=1,
        ),
        CAPACITY,
        *line_options(64 * 1024),
        ON_DISCONNECT,
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


class _ReceivedData(NamedTuple):
    data: bytes
    peer: str


class Udp(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "datagrams"

    _thread: threading.Thread | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._address = parse_address(SPEC, options["address"])
        self._format = LineFormat.of(SPEC, options)
        self._takes_lines = options["framing"] == "lines"
        self._gives_peer: bool = options["peer"]
        self._buffer_bytes = int(options["receive_buffer"])
        self._inbox: Inbox[_ReceivedData] = Inbox(options["capacity"], self.wake)
        self.connection = Connection("udp", render_address(self._address))
        self._retry = RetryLoop(self.connection, options["on_disconnect"])
        self._error: Exception | None = None
        self._stop_reader, self._stop_writer = socket.socketpair()
        self.dropped = 0
        """How many datagrams the operating system has dropped, where it says so."""
        self.bound_address: tuple[Any, ...] | None = None
        self.is_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torvyn-udp", daemon=True)
        self._thread.start()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(SPEC, options["address"])
        LineFormat.of(SPEC, options)

    def pull(self) -> str | bytes | Output | Pending:
        while (received := self._inbox.take()) is not None:
            output = self._decode(received)
            if output is not None:
                return output
        if self._error is not None:
            raise Unavailable(f"cannot listen on {render_address(self._address)}: {self._error}")
        return PENDING

    def teardown(self) -> None:
        if self._thread is None:
            return
        self._retry.stop()
        self._stop_writer.send(b"x")
        left = self._inbox.close()
        self._thread.join()
        self._thread = None
        self._stop_writer.close()
        self._stop_reader.close()
        self.connection.close()
        if left or self.dropped:
            logger.warning(
                "`udp`: the system dropped %d datagrams, %d elements were received and not "
                "processed",
                self.dropped,
                left,
            )

    def _decode(self, received: _ReceivedData) -> str | bytes | Output | None:
        where = f"a line from {received.peer}"
        output: str | bytes | Output | None = received.data
        if self._takes_lines:
            if len(received.data) > self._format.max_bytes:
                raise self._format.too_long(where)
            output = self._format.decode(received.data, where)
        if output is None or not self._gives_peer:
            return output
        attributes = {"peer": received.peer}
        if isinstance(output, Output):
            return Output(output.data, content_type=output.content_type, attributes=attributes)
        return Output(output, attributes=attributes)

    # On the thread

    def _run(self) -> None:
        try:
            receiver = self._retry.call(lambda: listen(self._address, socket.SOCK_DGRAM), OSError)
        except Unavailable as error:
            self._error = error
            self.wake()
            return
        with receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
            try:
                receiver.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
            except OSError:
                logger.debug("this system does not count dropped datagrams")
            self.bound_address = receiver.getsockname()
            self.is_listening.set()
            while not self._retry.is_stopped:
                self._inbox.wait_for_room()
                select.select([receiver, self._stop_reader], [], [])
                self._receive(receiver)

    def _receive(self, receiver: socket.socket) -> None:
        try:
            data, extra, _, address = receiver.recvmsg(MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(4))
        except OSError:
            return
        for level, kind, value in extra:
            if (level, kind) == (socket.SOL_SOCKET, SO_RXQ_OVFL):
                self._count_dropped(struct.unpack("=I", value[:4])[0])
        peer = render_address(address)
        parts = [data]
        if self._takes_lines:
            parts = [part.removesuffix(b"\r") for part in data.removesuffix(b"\n").split(b"\n")]
        self._inbox.put(_ReceivedData(part, peer) for part in parts)

    def _count_dropped(self, total: int) -> None:
        if total and not self.dropped:
            logger.warning("`udp`: the flow is too slow: the system drops datagrams")
        self.dropped = total
