"""What the sources `tcp` and `udp` share: a socket that listens, and elements with their sender."""

from __future__ import annotations

import socket
import threading
from typing import Any, ClassVar, Final

from torvyn._contract.element import Output
from torvyn.components.config import parse_config
from torvyn.components.line_format import LineFormat, line_options
from torvyn.components.network.inbox import CAPACITY
from torvyn.components.network.line_receiver import LineReceiver, Received
from torvyn.components.network.sockets import listen, parse_address, render_address
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option

ADDRESS: Final = Option("address", "text", "127.0.0.1:9000", "The `host:port` to listen on.")
LISTENER_OPTIONS: Final = (
    Option("peer", "boolean", False, "Give each element its sender as the attribute `peer`."),
    CAPACITY,
    *line_options(64 * 1024),
    ON_DISCONNECT,
)


class SocketListener(LineReceiver):
    """A subclass says how the socket is read, in `serve`."""

    socket_kind: ClassVar[socket.SocketKind]
    is_exclusive = True
    failure = "cannot listen on"

    def init(self, config: str) -> None:
        options = parse_config(self.spec, config)
        self.check_options(options)
        self._address = parse_address(self.spec, options["address"])
        self._gives_peer: bool = options["peer"]
        self._stop_reader, self._stop_writer = socket.socketpair()
        self.bound_address: tuple[Any, ...] | None = None
        self.is_listening = threading.Event()
        self.configure(options)
        self.start(options, render_address(self._address))

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(cls.spec, options["address"])
        LineFormat.of(cls.spec, options)

    def configure(self, options: dict[str, Any]) -> None:
        """Takes the options of the subclass, before the thread starts."""
        raise NotImplementedError

    def serve(self, bound: socket.socket) -> None:
        """Receives until `is_stopped`. `_stop_reader` becomes readable then."""
        raise NotImplementedError

    @property
    def is_stopped(self) -> bool:
        return self._retry.is_stopped

    def to_output(self, received: Received) -> str | bytes | Output | None:
        output = super().to_output(received)
        return self.with_peer(output, received.sender) if output is not None else None

    def with_peer(self, output: str | bytes | Output, peer: str) -> str | bytes | Output:
        if not self._gives_peer:
            return output
        data = output.data if isinstance(output, Output) else output
        kind = output.content_type if isinstance(output, Output) else None
        return Output(data, content_type=kind, attributes={"peer": peer})

    def unblock_thread(self) -> None:
        self._stop_writer.send(b"x")

    def teardown(self) -> None:
        is_open = self._thread is not None
        super().teardown()
        if is_open:
            self._stop_writer.close()
            self._stop_reader.close()

    # On the thread

    def receive(self) -> None:
        with self._retry.call(lambda: listen(self._address, self.socket_kind), OSError) as bound:
            self.bound_address = bound.getsockname()
            self.is_listening.set()
            self.serve(bound)
