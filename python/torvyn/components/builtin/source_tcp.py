"""`tcp`: listens for TCP connections and reads lines from them, one element each.

One thread reads all connections. When the flow is slow, it stops reading, and the senders wait.
Nothing confirms a line to its sender: lines that were received but not processed when the process
ends are lost.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from torvyn.components.config import parse_config
from torvyn.components.connection import Backoff, Connection
from torvyn.components.line_format import LineFormat, LineSplitter, SplitLine, line_options
from torvyn.components.network.inbox import CAPACITY, Inbox
from torvyn.components.network.sockets import keep_alive, listen, parse_address, render_address
from torvyn.components.retry import ON_DISCONNECT, RetryLoop
from torvyn.components.spec import Option, Spec
from torvyn.contract import PENDING, Output, Pending, Source
from torvyn.errors import Unavailable

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="tcp",
    role="source",
    summary="Listens for TCP connections and reads lines from them.",
    options=(
        Option("address", "text", "127.0.0.1:9000", "The `host:port` to listen on."),
        Option(
            "max_connections",
            "integer",
            64,
            "How many connections may be open; further ones are closed at once.",
            minimum=1,
        ),
        Option(
            "idle_timeout",
            "duration",
            0.0,
            "Close a connection that sends nothing for this long; 0 means never.",
        ),
        Option("peer", "boolean", False, "Give each element its sender as the attribute `peer`."),
        CAPACITY,
        *line_options(64 * 1024),
        ON_DISCONNECT,
    ),
    main="address",
    example="""\
[flow.main.nodes.readings]
component = "tcp"
config = { address = "0.0.0.0:9000", format = "jsonl", max_connections = 16 }
""",
)

CHUNK_BYTES: Final = 64 * 1024
IDLE_CHECK_S: Final = 1.0


class _ReceivedLine(NamedTuple):
    line: SplitLine
    peer: str


@dataclass(slots=True)
class _Peer:
    socket: socket.socket
    name: str
    splitter: LineSplitter
    heard_s: float = field(default_factory=time.monotonic)


class Tcp(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"

    _thread: threading.Thread | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._address = parse_address(SPEC, options["address"])
        self._format = LineFormat.of(SPEC, options)
        self._gives_peer: bool = options["peer"]
        self._idle_timeout_s: float = options["idle_timeout"]
        self._max_connections: int = options["max_connections"]
        self._inbox: Inbox[_ReceivedLine] = Inbox(options["capacity"], self.wake)
        self._peers: dict[socket.socket, _Peer] = {}
        self.connection = Connection("tcp", render_address(self._address))
        self._retry = RetryLoop(self.connection, options["on_disconnect"], Backoff())
        self._error: Exception | None = None
        self._stop_reader, self._stop_writer = socket.socketpair()
        self.bound_address: tuple[Any, ...] | None = None
        self.is_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torvyn-tcp", daemon=True)
        self._thread.start()

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(SPEC, options["address"])
        LineFormat.of(SPEC, options)

    def pull(self) -> str | Output | Pending:
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
        if left:
            logger.warning("`tcp`: %d lines were received and not processed", left)

    def _decode(self, received: _ReceivedLine) -> str | Output | None:
        where = f"a line from {received.peer}"
        if received.line.data is None:
            raise self._format.too_long(where)
        output = self._format.decode(received.line.data, where)
        if output is None or not self._gives_peer:
            return output
        attributes = {"peer": received.peer}
        if isinstance(output, Output):
            return Output(output.data, content_type=output.content_type, attributes=attributes)
        return Output(output, attributes=attributes)

    # On the thread

    def _run(self) -> None:
        try:
            listener = self._retry.call(lambda: listen(self._address, socket.SOCK_STREAM), OSError)
        except Unavailable as error:
            self._error = error
            self.wake()
            return
        self.bound_address = listener.getsockname()
        self.is_listening.set()
        with listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            try:
                self._serve(listener, selector)
            finally:
                for peer in list(self._peers.values()):
                    self._drop(peer, selector)

    def _serve(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        timeout_s = IDLE_CHECK_S if self._idle_timeout_s else None
        while not self._retry.is_stopped:
            self._inbox.wait_for_room()
            for key, _ in selector.select(timeout_s):
                if key.fileobj is listener:
                    self._accept(listener, selector)
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._peers:
                    self._read(self._peers[key.fileobj], selector)
            if self._idle_timeout_s:
                self._drop_idle(selector)

    def _accept(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        try:
            accepted, address = listener.accept()
        except OSError:
            return
        name = render_address(address)
        if len(self._peers) >= self._max_connections:
            accepted.close()
            logger.warning(
                "`tcp`: closed the connection from %s: %d are open, which is the limit",
                name,
                len(self._peers),
            )
            return
        accepted.setblocking(False)
        keep_alive(accepted)
        self._peers[accepted] = _Peer(accepted, name, LineSplitter(self._format.max_bytes))
        selector.register(accepted, selectors.EVENT_READ)

    def _read(self, peer: _Peer, selector: selectors.BaseSelector) -> None:
        try:
            data = peer.socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            peer.heard_s = time.monotonic()
            self._put(peer, peer.splitter.feed(data))
            return
        last = peer.splitter.flush()
        self._put(peer, [last] if last else [])
        self._drop(peer, selector)

    def _put(self, peer: _Peer, lines: list[SplitLine]) -> None:
        if lines:
            self._inbox.put(_ReceivedLine(line, peer.name) for line in lines)

    def _drop_idle(self, selector: selectors.BaseSelector) -> None:
        oldest_s = time.monotonic() - self._idle_timeout_s
        for peer in [peer for peer in self._peers.values() if peer.heard_s < oldest_s]:
            self._drop(peer, selector)

    def _drop(self, peer: _Peer, selector: selectors.BaseSelector) -> None:
        del self._peers[peer.socket]
        selector.unregister(peer.socket)
        peer.socket.close()
