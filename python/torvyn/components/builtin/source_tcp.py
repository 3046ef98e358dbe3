"""`tcp`: listens for TCP connections and reads lines from them, one element each.

One thread reads all connections. When the flow is slow, it stops reading, and the senders wait.
Nothing confirms a line to its sender: lines that were received but not processed when the process
ends are lost.
"""

from __future__ import annotations

import logging
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from torvyn.components.line_format import LineSplitter, SplitLine
from torvyn.components.network.line_receiver import Received
from torvyn.components.network.socket_listener import ADDRESS, LISTENER_OPTIONS, SocketListener
from torvyn.components.network.sockets import keep_alive, render_address
from torvyn.components.spec import Option, Spec

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="tcp",
    role="source",
    summary="Listens for TCP connections and reads lines from them.",
    options=(
        ADDRESS,
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
        *LISTENER_OPTIONS,
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


@dataclass(slots=True)
class _Peer:
    socket: socket.socket
    name: str
    splitter: LineSplitter
    heard_s: float = field(default_factory=time.monotonic)


class Tcp(SocketListener):
    spec: ClassVar[Spec] = SPEC
    socket_kind = socket.SOCK_STREAM
    unit = "lines"

    def configure(self, options: dict[str, Any]) -> None:
        self._idle_timeout_s: float = options["idle_timeout"]
        self._max_connections: int = options["max_connections"]
        self._peers: dict[socket.socket, _Peer] = {}

    # On the thread

    def serve(self, bound: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(bound, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            try:
                self._receive(bound, selector)
            finally:
                for peer in list(self._peers.values()):
                    self._drop(peer, selector)

    def _receive(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        timeout_s = IDLE_CHECK_S if self._idle_timeout_s else None
        while not self.is_stopped:
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
            self._inbox.put(Received(line.data, peer.name) for line in lines)

    def _drop_idle(self, selector: selectors.BaseSelector) -> None:
        oldest_s = time.monotonic() - self._idle_timeout_s
        for peer in [peer for peer in self._peers.values() if peer.heard_s < oldest_s]:
            self._drop(peer, selector)

    def _drop(self, peer: _Peer, selector: selectors.BaseSelector) -> None:
        del self._peers[peer.socket]
        selector.unregister(peer.socket)
        peer.socket.close()
